"""Metrics of tiered storage, computed on each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from barnabas.broker.tiering.status import count_segments, pending_sizes
from barnabas.log import Log
from barnabas.metrics import QUANTILES, Histogram, Metric, Registry, Sample, tiering_catalogue
from barnabas.replication import TieredReads
from barnabas.tiering.reading import ReadingParts
from barnabas.tiering.stores import Traffic
from barnabas.tiering.writing import RemoteWriter, UploadLimiter, WriterState


class TieredPartition(NamedTuple):
    """A partition led by this broker."""

    topic: str
    log: Log
    writer: RemoteWriter


class TieringMetrics:
    def __init__(
        self,
        registry: Registry,
        parts: ReadingParts,
        pacer: UploadLimiter,
        reads: Callable[[], TieredReads | None],
        led_partitions: Callable[[], Iterable[TieredPartition]],
    ) -> None:
        self._registry = registry
        self._led = led_partitions
        self._topics()
        self._cache(parts)
        self._traffic(parts.chunks.quota.traffic, pacer.traffic)
        registry.computed(
            tiering_catalogue.REMOTE_FETCHES_EXPIRED,
            _single(lambda: _of(reads(), lambda found: found.expired)),
        )
        registry.computed(
            tiering_catalogue.REMOTE_SEARCHES_EXPIRED,
            _single(lambda: _of(reads(), lambda found: found.expired_searches)),
        )

    def _topics(self) -> None:
        self._by_topic(tiering_catalogue.REMOTE_COPY_LAG_BYTES, lambda part: sum(_pending(part)))
        self._by_topic(tiering_catalogue.REMOTE_COPY_LAG_SEGMENTS, lambda part: len(_pending(part)))
        self._by_topic(tiering_catalogue.REMOTE_DELETE_LAG_BYTES, lambda part: sum(_garbage(part)))
        self._by_topic(tiering_catalogue.REMOTE_DELETE_LAG_SEGMENTS, lambda part: len(_garbage(part)))
        self._by_topic(tiering_catalogue.REMOTE_LOG_SIZE, _remote_size)
        self._by_topic(tiering_catalogue.REMOTE_SEGMENTS, lambda part: count_segments(part.writer.manifest))
        self._registry.computed(tiering_catalogue.REMOTE_TASKS_IDLE, _single(self._idle_writers))

    def _idle_writers(self) -> float:
        states = [part.writer.state for part in self._led()]
        return sum(state is not WriterState.WORKING for state in states) / len(states) if states else 1.0

    def _cache(self, parts: ReadingParts) -> None:
        registry, cache, store = self._registry, parts.chunks, parts.store
        registry.computed(
            tiering_catalogue.REMOTE_CACHE_BYTES,
            lambda: _by("where", {"disk": cache.used, "memory": cache.memory.used}),
        )
        registry.computed(
            tiering_catalogue.REMOTE_CACHE_READS,
            lambda: _by("outcome", {"hit": cache.hits, "miss": cache.misses}),
        )
        registry.computed(
            tiering_catalogue.REMOTE_STORE_READS,
            lambda: _by("outcome", {"all": store.requests, "failed": store.failures}),
        )
        for metric, read in {
            tiering_catalogue.REMOTE_CACHE_LIMIT: lambda: cache.limit,
            tiering_catalogue.REMOTE_CACHE_EVICTED: lambda: cache.evicted,
            tiering_catalogue.REMOTE_READER_QUEUE: lambda: cache.waiting,
            tiering_catalogue.REMOTE_READER_IDLE: lambda: 1 - cache.running / cache.max_downloads,
            tiering_catalogue.REMOTE_STORE_DOWN: lambda: store.is_down,
        }.items():
            registry.computed(metric, _single(read))
        registry.computed(tiering_catalogue.REMOTE_READER_TIMES, lambda: _times(cache.times))

    def _traffic(self, reading: Traffic, copying: Traffic) -> None:
        for metric, read in {
            tiering_catalogue.REMOTE_FETCH_BYTE_RATE: lambda: reading.bytes_per_second,
            tiering_catalogue.REMOTE_COPY_BYTE_RATE: lambda: copying.bytes_per_second,
            tiering_catalogue.REMOTE_FETCH_THROTTLE_AVG: lambda: reading.average_wait_ms,
            tiering_catalogue.REMOTE_FETCH_THROTTLE_MAX: lambda: reading.longest_wait_ms,
            tiering_catalogue.REMOTE_COPY_THROTTLE_AVG: lambda: copying.average_wait_ms,
            tiering_catalogue.REMOTE_COPY_THROTTLE_MAX: lambda: copying.longest_wait_ms,
        }.items():
            self._registry.computed(metric, _single(read))

    def _by_topic(self, metric: Metric, value: Callable[[TieredPartition], int]) -> None:
        """Report a value per topic and in total, as Kafka does."""

        def read() -> Iterator[Sample]:
            values: dict[str, int] = {}
            for part in self._led():
                values[part.topic] = values.get(part.topic, 0) + value(part)
            yield Sample("", (), sum(values.values()))
            for topic in sorted(values):
                yield Sample("", (("topic", topic),), values[topic])

        self._registry.computed(metric, read)


def _pending(part: TieredPartition) -> list[int]:
    return pending_sizes(part.log, part.writer)


def _garbage(part: TieredPartition) -> list[int]:
    manifest = part.writer.manifest
    return [] if manifest is None else [each.size for each in manifest.garbage]


def _remote_size(part: TieredPartition) -> int:
    manifest = part.writer.manifest
    return manifest.size if manifest is not None else 0


def _times(histogram: Histogram) -> Iterator[Sample]:
    for fraction in QUANTILES:
        yield Sample("", (("quantile", str(fraction)),), histogram.quantile(fraction) * 1000)
    yield Sample("_sum", (), histogram.sum * 1000)
    yield Sample("_count", (), histogram.count)


def _of(reads: TieredReads | None, count: Callable[[TieredReads], int]) -> int:
    return 0 if reads is None else count(reads)


def _by(label: str, values: dict[str, int]) -> Iterator[Sample]:
    return (Sample("", ((label, name),), value) for name, value in values.items())


def _single(read: Callable[[], float]) -> Callable[[], Iterable[Sample]]:
    return lambda: (Sample("", (), read()),)
