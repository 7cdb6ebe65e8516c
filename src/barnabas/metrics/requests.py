"""Request counts by API and version, and request latencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.metrics import catalogue
from barnabas.metrics.registry import Counter, Histogram, Registry, Sample

# Quantiles of Kafka's timers in the JMX exporter, as used by the stock dashboards.
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


class RequestMetrics:
    """The metrics of all requests of one broker; a route holds its own children."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._requests = registry.counter(catalogue.REQUESTS)
        self._seconds = registry.histogram(catalogue.REQUEST_SECONDS)
        self._heavy = registry.counter(catalogue.HEAVY_REQUESTS)
        self._refused = registry.counter(catalogue.REFUSED_REQUESTS)
        registry.computed(catalogue.REQUEST_MILLISECONDS, self._milliseconds)

    def counter(self, name: str, version: int) -> Counter:
        return self._requests.labels(name, str(version))

    def times(self, name: str) -> Histogram:
        return self._seconds.labels(name)

    def heavy(self, name: str) -> Counter:
        return self._heavy.labels(name)

    def heavy_waiting(self, read: Callable[[], int]) -> None:
        self._registry.read_by(catalogue.HEAVY_REQUESTS_WAITING, read)

    def refused(self, name: str, limit: str) -> Counter:
        return self._refused.labels(name, limit)

    def _milliseconds(self) -> Iterator[Sample]:
        for labels, histogram in self._seconds.children():
            for fraction in QUANTILES:
                value = histogram.quantile(fraction) * 1000
                yield Sample("", (*labels, ("quantile", str(fraction))), value)
            yield Sample("_sum", labels, histogram.sum * 1000)
            yield Sample("_count", labels, histogram.count)
