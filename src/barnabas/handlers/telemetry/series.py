"""What clients have pushed, as Prometheus shall see it: one value for each series, until its client is gone.

`org.apache.kafka.producer.node.request.latency.avg` becomes `kafka_client_producer_node_request_latency_avg`, with the
labels `client_id` and `client_instance_id` besides those that the client gives. Names come from clients, so two of
them may become one: the last value counts, and the page stays one that Prometheus can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from barnabas.metrics.registry import Metric
from barnabas.metrics.registry import Computed, Sample
from barnabas.handlers.telemetry.otlp import Point
from barnabas.common.types import Uuid

PREFIX = "kafka_client_"
KAFKAS_PREFIX = "org_apache_kafka_"
LONGEST_NAME = 150
MOST_LABELS = 8
LONGEST_LABEL = 100

Labels = tuple[tuple[str, str], ...]


class Key(NamedTuple):
    metric: str
    labels: Labels


class Series:
    """The series of all clients of a broker, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._of_client: dict[Uuid, dict[Key, float]] = {}
        self._counters: dict[str, bool] = {}  # the kind that a metric had first
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def keep(self, client: Uuid, own: Labels, points: Iterable[Point]) -> None:
        """Take over what a client has pushed; `own` are the labels that tell it from others."""
        series = self._of_client.setdefault(client, {})
        for point in points:
            key = Key(metric_name(point.metric), _labels(own, point.attributes))
            if key not in series:
                if self._count >= self.limit:
                    self.dropped += 1
                    continue
                self._count += 1
            series[key] = point.value
            self._counters.setdefault(key.metric, point.is_counter)

    def forget(self, client: Uuid) -> None:
        self._count -= len(self._of_client.pop(client, ()))
        if not self._of_client:
            self._counters.clear()

    def families(self) -> Iterator[Computed]:
        """As the registry shows them, by name."""
        by_metric: dict[str, list[Sample]] = {}
        for series in self._of_client.values():
            for (metric, labels), value in series.items():
                by_metric.setdefault(metric, []).append(Sample("", labels, value))
        for name, samples in sorted(by_metric.items()):
            kind = "counter" if self._counters[name] else "gauge"
            yield Computed(Metric(kind, name, "Pushed by clients (KIP-714)."), partial(iter, samples))


@lru_cache(4096)
def metric_name(name: str) -> str:
    return PREFIX + _as_name(name[:LONGEST_NAME]).removeprefix(KAFKAS_PREFIX)


@lru_cache(4096)
def _as_name(text: str) -> str:
    """Letters, digits and underscores, which Prometheus takes."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in text)
    return f"_{plain}" if plain[:1].isdigit() else plain


def _labels(own: Labels, attributes: Labels) -> Labels:
    given = {
        _as_name(name[:LONGEST_LABEL]): text[:LONGEST_LABEL]
        for name, text in attributes[:MOST_LABELS]
        if name
    }
    return tuple(sorted((given | dict(own)).items()))
