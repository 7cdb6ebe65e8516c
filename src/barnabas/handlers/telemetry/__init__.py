"""Client telemetry (KIP-714): `handler` serves the requests, `manager` has ClientTelemetry with subscriptions
and limits of each client, `series` exposes the pushed metrics to Prometheus.
"""
