"""The metrics of mirror topics, on their leaders."""

from __future__ import annotations

from barnabas.metrics.registry import gauge, metrics_among

MIRROR_PARTITIONS = gauge(
    "barnabas_mirror_led_partitions", "Partitions of mirror topics that this broker leads, by state.", "state"
)
MIRROR_FAILED = gauge(
    "barnabas_mirror_failed_partitions",
    "Partitions of mirror topics, anywhere in the cluster, that are FAILED: nothing more is mirrored until an operator "
    "has looked. Alarm if it is not 0.",
)
MIRROR_LAG = gauge(
    "barnabas_mirror_led_lag_offsets",
    "Offsets that the source has and this leader has not, as the mirror last said.",
    "topic",
    "partition",
)

CATALOGUE = metrics_among(globals())
