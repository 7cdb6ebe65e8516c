"""What is wrong with a cluster: one catalogue for the console, Prometheus and Grafana."""
