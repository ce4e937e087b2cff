"""Pictures of the dashboards, drawn by Grafana's own panel library from a real Prometheus."""
