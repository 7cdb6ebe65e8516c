"""Metrics of client quotas: Kafka's attributes by resource, user and client id, named as by the JMX exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nlargest

from barnabas.metrics import Metric, Registry, Sample, catalogue
from barnabas.security.quotas.client_quotas import ClientQuotas, Sensor
from barnabas.security.quotas.interface import QuotaKind

Read = Callable[[Sensor, float], float]

_BYTES = frozenset({QuotaKind.PRODUCE, QuotaKind.FETCH})
_METRICS: dict[Metric, tuple[frozenset[QuotaKind], Read]] = {
    catalogue.QUOTA_BYTE_RATE: (_BYTES, lambda sensor, now: sensor.rate.rate(now)),
    catalogue.QUOTA_REQUEST_TIME: (frozenset({QuotaKind.REQUEST}), lambda sensor, now: sensor.rate.rate(now)),
    catalogue.QUOTA_MUTATION_RATE: (
        frozenset({QuotaKind.MUTATION}),
        lambda sensor, now: sensor.rate.rate(now),
    ),
    catalogue.QUOTA_TOKENS: (
        frozenset({QuotaKind.MUTATION}),
        lambda sensor, _: sensor.bucket.tokens,
    ),
    catalogue.QUOTA_THROTTLE_TIME: (
        frozenset(QuotaKind),
        lambda sensor, now: sensor.throttle_time.value(now),
    ),
}


def declare_quota_metrics(registry: Registry, quotas: ClientQuotas, monotonic: Callable[[], float]) -> None:
    """Declare the metrics; each has the most recently active clients, up to barnabas.quotas.max.series."""
    for metric, (kinds, read) in _METRICS.items():
        registry.computed(metric, _reader(quotas, kinds, read, monotonic))


def _reader(
    quotas: ClientQuotas, kinds: frozenset[QuotaKind], read: Read, monotonic: Callable[[], float]
) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        quotas.forget_silent()
        now = monotonic()
        candidates = (sensor for sensor in quotas.sensors() if sensor.kind in kinds)
        recent = nlargest(quotas.limits.series, candidates, key=lambda sensor: sensor.last_used)
        for sensor in sorted(recent, key=lambda sensor: (sensor.kind.resource, sensor.tags)):
            yield Sample("", _labels(sensor), read(sensor, now))

    return samples


def _labels(sensor: Sensor) -> tuple[tuple[str, str], ...]:
    user, client_id = sensor.tags
    labels = (("resource", sensor.kind.resource), ("user", user), ("clientId", client_id))
    return tuple(label for label in labels if label[1])
