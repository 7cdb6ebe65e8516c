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
_LOG_DIR = ("broker", "path")
LOG_DIR_TOTAL = gauge(
    "barnabas_log_dir_total_bytes", "Size of the volume of a log dir, where brokers tell it.", *_LOG_DIR
)
LOG_DIR_USABLE = gauge("barnabas_log_dir_usable_bytes", "What is free of it.", *_LOG_DIR)
LOG_DIR_FAILED = gauge("barnabas_log_dir_failed", "1 when a log dir has failed.", *_LOG_DIR)

STATUS_STATE = gauge(
    "barnabas_status_state",
    "1 for the state of a pipeline, connector, mirror or agent, as it reports it; lost: it has not reported in time.",
    "kind",
    "name",
    "state",
)
STATUS_ALARMS = gauge("barnabas_status_alarms", "Alarms that it raises itself.", "kind", "name")
STATUS_LAG = gauge(
    "barnabas_status_lag", "What it has not done yet: records, bytes for files.", "kind", "name", "part"
)

SNAPSHOT_AGE = gauge("barnabas_console_snapshot_age_seconds", "How old the figures of the cluster are.")
SNAPSHOT_SECONDS = gauge(
    "barnabas_console_snapshot_seconds", "How long the cluster took to answer, the last time it was asked."
)

CATALOGUE = (*exporter_catalogue.CATALOGUE, *metrics_among(globals()))
"""Every metric of the exporter's page."""
