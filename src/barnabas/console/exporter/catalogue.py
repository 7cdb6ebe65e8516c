"""What the console serves besides kafka_exporter's own metrics (`metrics.exporter_catalogue`)."""

from __future__ import annotations

from barnabas.metrics import exporter_catalogue
from barnabas.metrics.declarations import gauge, metrics_among

GROUP_LAG_SECONDS = gauge(
    "kafka_consumergroup_lag_seconds",
    "Age of the oldest record of a partition that a group has not committed; 0 without lag.",
    "consumergroup",
    "topic",
    "partition",
)
SNAPSHOT_AGE = gauge("barnabas_console_snapshot_age_seconds", "How old the figures of the cluster are.")
SNAPSHOT_SECONDS = gauge(
    "barnabas_console_snapshot_seconds", "How long the cluster took to answer, the last time it was asked."
)

CATALOGUE = (*exporter_catalogue.CATALOGUE, *metrics_among(globals()))
"""Every metric of the exporter's page."""
