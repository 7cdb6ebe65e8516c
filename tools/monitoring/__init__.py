"""Prometheus rules and Grafana dashboards, generated from the console's alarm catalogue."""
