"""Measuring an endpoint: what it gives at which load."""
