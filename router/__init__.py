"""spec-router: a reverse proxy that sends each request to the faster of two SGLang engines."""

__version__ = "0.1.0"
