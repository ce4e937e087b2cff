"""Dashboards and alerts against a real Prometheus that scrapes a running router and two engines."""
