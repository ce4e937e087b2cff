"""The admin port: metrics, probes, status."""
