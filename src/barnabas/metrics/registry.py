"""Counters, gauges and histograms, and their registry.

Hot code keeps the child it needs (one counter of one topic, say) and runs `counter.value += n`: no lookup, no
lock and no call. Sorting and formatting happen when the page is rendered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

# -- Declaration of a metric: kind, name, help text, labels -------------------------------------------


class Metric(NamedTuple):
    kind: str
    name: str
    help: str
    labels: tuple[str, ...] = ()


def counter(name: str, text: str, *labels: str) -> Metric:
    return Metric("counter", name, text, labels)


def gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric("gauge", name, text, labels)


def metrics_among(names: Mapping[str, object]) -> tuple[Metric, ...]:
    """Return the metrics declared in a module, in order."""
    return tuple(value for value in names.values() if isinstance(value, Metric))


Labels = tuple[str, ...]
"""Label values of a metric, in the order of its label names."""


class Sample(NamedTuple):
    """One line of the text format: a suffix to the metric's name, label pairs and a value."""

    suffix: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Counter:
    """A number that only grows; its owner adds to `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: int | float = 0


class Gauge:
    """A number that is set by its owner, or computed when the page is rendered."""

    __slots__ = ("read", "value")

    def __init__(self) -> None:
        self.value: int | float = 0
        self.read: Callable[[], int | float] | None = None

    def current(self) -> int | float:
        return self.value if self.read is None else self.read()


# Seconds: from a request served from memory to Kafka's default request timeout.
LATENCY_BUCKETS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip


class Histogram:
    """Counts observations at or below each bound; the last element of `counts` is for larger ones."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BUCKETS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, fraction: float) -> float:
        """Estimate a quantile, assuming that observations are spread evenly within their bucket."""
        total = self.count
        if not total:
            return 0.0
        rank = fraction * total
        seen, lower = 0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            if count and seen + count >= rank:
                return lower + (bound - lower) * (rank - seen) / count
            seen += count
            lower = bound
        return lower


M = TypeVar("M", Counter, Gauge, Histogram)


class Family(Generic[M]):
    """A metric by name, with one child for each combination of label values in use."""

    def __init__(self, metric: Metric, make: Callable[[], M]) -> None:
        self.metric = metric
        self._make: Callable[[], M] = make
        self._children: dict[Labels, M] = {}

    def labels(self, *values: str) -> M:
        """Return the child with these label values; the first call creates it."""
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self.metric.labels):
                raise ValueError(f"{self.metric.name} has the labels {self.metric.labels}, not {values}")
            child = self._children[values] = self._make()
        return child

    def remove(self, *values: str) -> None:
        """Remove a child, so that a deleted topic disappears from the page."""
        self._children.pop(values, None)

    def children(self) -> Iterator[tuple[tuple[tuple[str, str], ...], M]]:
        for values, child in sorted(self._children.items()):
            yield tuple(zip(self.metric.labels, values, strict=True)), child

    def samples(self) -> Iterator[Sample]:
        for labels, child in self.children():
            yield from _samples_of(child, labels)


def _samples_of(child: Counter | Gauge | Histogram, labels: tuple[tuple[str, str], ...]) -> Iterator[Sample]:
    if isinstance(child, Counter):
        yield Sample("", labels, child.value)
    elif isinstance(child, Gauge):
        yield Sample("", labels, child.current())
    else:
        total = 0
        for bound, count in zip((*child.bounds, float("inf")), child.counts, strict=True):
            total += count
            yield Sample(
                "_bucket", (*labels, ("le", "+Inf" if bound == float("inf") else f"{bound:g}")), total
            )
        yield Sample("_sum", labels, child.sum)
        yield Sample("_count", labels, total)


class Computed:
    """A metric whose samples are computed when the page is rendered."""

    def __init__(self, metric: Metric, read: Callable[[], Iterable[Sample]]) -> None:
        self.metric = metric
        self._read = read

    def samples(self) -> Iterator[Sample]:
        yield from self._read()


AnyFamily = Family[Counter] | Family[Gauge] | Family[Histogram] | Computed


class Registry:
    """All metrics of one broker. Declaring a name twice is a bug."""

    def __init__(self) -> None:
        self._families: dict[str, AnyFamily] = {}
        self._sources: list[Callable[[], Iterable[Computed]]] = []

    def counter(self, metric: Metric) -> Family[Counter]:
        return self._declare(Family(metric, Counter))

    def gauge(self, metric: Metric) -> Family[Gauge]:
        return self._declare(Family(metric, Gauge))

    def histogram(self, metric: Metric, bounds: tuple[float, ...] = LATENCY_BUCKETS) -> Family[Histogram]:
        return self._declare(Family(metric, lambda: Histogram(bounds)))

    def computed(self, metric: Metric, read: Callable[[], Iterable[Sample]]) -> Computed:
        return self._declare(Computed(metric, read))

    def read_by(self, metric: Metric, read: Callable[[], int | float]) -> None:
        """Declare a metric without labels whose value is returned by a function."""
        self.computed(metric, lambda: (Sample("", (), read()),))

    def add_source(self, read: Callable[[], Iterable[Computed]]) -> None:
        """Add a source of metrics whose names are known only when the page is rendered."""
        self._sources.append(read)

    def families(self) -> Iterator[AnyFamily]:
        yield from (self._families[name] for name in sorted(self._families))
        for read in self._sources:
            yield from read()

    def snapshot(self) -> Mapping[str, float]:
        """Return every sample by its name in the text format, for reports and tests."""
        values = {}
        for family in self.families():
            for suffix, labels, value in family.samples():
                inside = ",".join(f"{name}={text}" for name, text in labels)
                values[family.metric.name + suffix + (f"{{{inside}}}" if inside else "")] = value
        return values

    def _declare(self, family: F) -> F:
        name = family.metric.name
        if name in self._families:
            raise ValueError(f"metric {name} is declared twice")
        self._families[name] = family
        return family


F = TypeVar("F", Family[Counter], Family[Gauge], Family[Histogram], Computed)
