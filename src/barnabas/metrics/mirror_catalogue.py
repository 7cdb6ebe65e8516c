"""Metrics of mirror topics, on their leaders."""

from __future__ import annotations

from barnabas.metrics.registry import gauge

MIRROR_PARTITIONS = gauge(
    "barnabas_mirror_led_partitions", "Partitions of mirror topics that this broker leads, by state.", "state"
)
MIRROR_FAILED = gauge(
    "barnabas_mirror_failed_partitions",
    "FAILED partitions of mirror topics in the cluster, for which mirroring has stopped until an operator intervenes. "
    "Alert if it is not 0.",
)
MIRROR_LAG = gauge(
    "barnabas_mirror_led_lag_offsets",
    "Offsets by which this leader lags behind the source, as last reported by the mirror.",
    "topic",
    "partition",
)
