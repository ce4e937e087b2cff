"""Commands that talk to a running router's admin port, or read what it has recorded."""
