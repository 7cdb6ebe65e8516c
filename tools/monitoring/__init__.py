"""Rules for Prometheus and boards for Grafana, from the console's catalogue of alarms."""
