"""What the data path costs, beside a router written in Rust: `python -m bench.dataplane --help`."""
