"""Alarms of a cluster: one catalogue for the console, Prometheus and Grafana."""
