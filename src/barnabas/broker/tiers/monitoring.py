"""What is measured of tiered storage, read when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from barnabas.log.log import Log
from barnabas.metrics import tiering_catalogue
from barnabas.metrics.declarations import Metric
from barnabas.metrics.registry import Registry, Sample
from barnabas.replication.remote_reads import RemoteReads
from barnabas.tiering.objects.manifest import Manifest
from barnabas.tiering.reading.remote_log import ReadingParts


class LedPart(NamedTuple):
    """A partition that this broker leads."""

    topic: str
    log: Log
    manifest: Manifest | None


class TieringMetrics:
    def __init__(
        self,
        registry: Registry,
        parts: ReadingParts,
        reads: Callable[[], RemoteReads | None],
        led: Callable[[], Iterable[LedPart]],
    ) -> None:
        self._registry = registry
        self._led = led
        self._by_topic(tiering_catalogue.REMOTE_COPY_LAG_BYTES, lambda part: sum(_uncopied(part.log)))
        self._by_topic(tiering_catalogue.REMOTE_COPY_LAG_SEGMENTS, lambda part: len(_uncopied(part.log)))
        self._by_topic(
            tiering_catalogue.REMOTE_LOG_SIZE, lambda part: part.manifest.size if part.manifest else 0
        )
        self._by_topic(tiering_catalogue.REMOTE_SEGMENTS, _count)
        cache, store = parts.chunks, parts.store
        registry.computed(
            tiering_catalogue.REMOTE_CACHE_BYTES,
            lambda: _by("where", {"disk": cache.used, "memory": cache.memory_used}),
        )
        registry.computed(
            tiering_catalogue.REMOTE_CACHE_READS,
            lambda: _by("outcome", {"hit": cache.hits, "miss": cache.misses}),
        )
        registry.computed(
            tiering_catalogue.REMOTE_STORE_READS,
            lambda: _by("outcome", {"all": store.requests, "failed": store.failures}),
        )
        idle = lambda: 1 - cache.running / cache.most_downloads  # noqa: E731 - one of several alike
        for metric, read in {
            tiering_catalogue.REMOTE_CACHE_LIMIT: lambda: cache.limit,
            tiering_catalogue.REMOTE_CACHE_EVICTED: lambda: cache.evicted,
            tiering_catalogue.REMOTE_READER_QUEUE: lambda: cache.waiting,
            tiering_catalogue.REMOTE_READER_IDLE: idle,
            tiering_catalogue.REMOTE_STORE_DOWN: lambda: store.is_down,
            tiering_catalogue.REMOTE_FETCHES_EXPIRED: lambda: (
                found.expired if (found := reads()) is not None else 0
            ),
        }.items():
            registry.computed(metric, _single(read))

    def _by_topic(self, metric: Metric, value: Callable[[LedPart], int]) -> None:
        """Each topic, and the sum of all, as Kafka has it."""

        def read() -> Iterator[Sample]:
            values: dict[str, int] = {}
            for part in self._led():
                values[part.topic] = values.get(part.topic, 0) + value(part)
            yield Sample("", (), sum(values.values()))
            for topic in sorted(values):
                yield Sample("", (("topic", topic),), values[topic])

        self._registry.computed(metric, read)


def _uncopied(log: Log) -> list[int]:
    """Bytes of each sealed segment that has something above the tiered end."""
    segments = log.segments.since(max(log.offsets.tiered_end, log.offsets.local_start))
    return [segment.size for segment in segments[:-1]]


def _count(part: LedPart) -> int:
    manifest = part.manifest
    return 0 if manifest is None else len(manifest.entries) + sum(page.count for page in manifest.pages)


def _by(label: str, values: dict[str, int]) -> Iterator[Sample]:
    return (Sample("", ((label, name),), value) for name, value in values.items())


def _single(read: Callable[[], float]) -> Callable[[], Iterable[Sample]]:
    return lambda: (Sample("", (), read()),)
