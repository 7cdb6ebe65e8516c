"""Pushed metrics for Prometheus: the last value of each series, until its client disconnects.

`org.apache.kafka.producer.node.request.latency.avg` becomes `kafka_client_producer_node_request_latency_avg`,
with the labels `client_id` and `client_instance_id` besides those of the client. Names come from clients, so
two of them may collide: the last value counts, and the page stays valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from barnabas.common.types import Uuid
from barnabas.handlers.telemetry.otlp import MetricPoint
from barnabas.metrics import Computed, Metric, Sample

PREFIX = "kafka_client_"
KAFKAS_PREFIX = "org_apache_kafka_"
MAX_NAME = 150
MAX_LABELS = 8
MAX_LABEL = 100

Labels = tuple[tuple[str, str], ...]


class SeriesKey(NamedTuple):
    metric: str
    labels: Labels


class Sampled(NamedTuple):
    value: float
    is_counter: bool


class Series:
    """The series of all clients of a broker, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._of_client: dict[Uuid, dict[SeriesKey, Sampled]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def keep(self, client: Uuid, own: Labels, point: MetricPoint) -> None:
        """Store a pushed point; `own` are the labels that identify its client."""
        series = self._of_client.setdefault(client, {})
        key = SeriesKey(metric_name(point.metric[:MAX_NAME]), _labels(own, point.attributes))
        if key not in series:
            if self._count >= self.limit:
                self.dropped += 1
                return
            self._count += 1
        series[key] = Sampled(point.value, point.is_counter)

    def forget(self, client: Uuid) -> None:
        self._count -= len(self._of_client.pop(client, ()))

    def families(self) -> Iterator[Computed]:
        """Yield the metrics for the registry, by name. The kind of a metric is that of its first series."""
        by_metric: dict[str, list[Sample]] = {}
        counters: dict[str, bool] = {}
        for series in self._of_client.values():
            for (metric, labels), (value, is_counter) in series.items():
                by_metric.setdefault(metric, []).append(Sample("", labels, value))
                counters.setdefault(metric, is_counter)
        for name, samples in sorted(by_metric.items()):
            kind = "counter" if counters[name] else "gauge"
            yield Computed(Metric(kind, name, "Pushed by clients (KIP-714)."), partial(iter, samples))


@lru_cache(4096)
def metric_name(name: str) -> str:
    """Return the Prometheus name; `name` has at most MAX_NAME characters: the cache keeps it."""
    return PREFIX + _as_name(name).removeprefix(KAFKAS_PREFIX)


@lru_cache(4096)
def _as_name(text: str) -> str:
    """Replace characters other than letters, digits and underscores."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in text)
    return f"_{plain}" if plain[:1].isdigit() else plain


def _labels(own: Labels, attributes: Labels) -> Labels:
    labels = {_as_name(name[:MAX_LABEL]): text[:MAX_LABEL] for name, text in attributes[:MAX_LABELS] if name}
    return tuple(sorted((labels | dict(own)).items()))
