"""Software that nobody here wrote, as clients of the router: `make test-clients`."""
