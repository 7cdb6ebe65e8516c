"""Metrics page of the exporter, line by line: a snapshot in Prometheus text format.

A large cluster has half a million lines, so labels are formatted once for all metrics of a partition, and each line
takes little time. Unknown values have no sample: an offset that no broker reported, the lag of a
partition without a commit. Stale figures are omitted, as they could not be distinguished from current ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, TypeVar

from barnabas.client.status import ProcessStatus
from barnabas.metrics import Metric, exporter_catalogue, gauge, header, label_text, metrics_among, number_text
from barnabas.metrics import exporter_catalogue as kafka
from barnabas.services.console.exporter.watch import ClusterFigures, ClusterWatch
from barnabas.services.console.sampling.snapshot import (
    ClusterSnapshot,
    GroupPartition,
    LogDirSample,
    PartitionSample,
)

# -- Metrics in addition to kafka_exporter's (`metrics.exporter_catalogue`) ------------------------------

GROUP_LAG_SECONDS = gauge(
    "kafka_consumergroup_lag_seconds",
    "Age of the oldest record of a partition that a group has not committed; 0 without lag.",
    "consumergroup",
    "topic",
    "partition",
)
_LOG_DIR = ("broker", "path")
LOG_DIR_TOTAL = gauge(
    "barnabas_log_dir_total_bytes", "Size of the volume of a log dir, if the broker reports it.", *_LOG_DIR
)
LOG_DIR_USABLE = gauge(
    "barnabas_log_dir_usable_bytes",
    "Free space on the volume of a log dir, if the broker reports it.",
    *_LOG_DIR,
)
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


Value = float | None
T = TypeVar("T")


class MetricRow(NamedTuple):
    labels: str
    value: Value


PARTITION_METRICS: dict[Metric, Callable[[PartitionSample], Value]] = {
    kafka.CURRENT_OFFSET: lambda each: _known(each.end),
    kafka.OLDEST_OFFSET: lambda each: _known(each.start),
    kafka.LEADER: lambda each: _known(each.leader),
    kafka.REPLICAS: lambda each: len(each.replicas),
    kafka.IN_SYNC_REPLICAS: lambda each: len(each.isr),
    kafka.LEADER_IS_PREFERRED: lambda each: int(each.leader in each.replicas[:1]),
    kafka.UNDER_REPLICATED: lambda each: int(len(each.isr) < len(each.replicas)),
}
LOG_DIR_METRICS: dict[Metric, Callable[[LogDirSample], Value]] = {
    LOG_DIR_TOTAL: lambda each: _known(each.total),
    LOG_DIR_USABLE: lambda each: _known(each.usable),
    LOG_DIR_FAILED: lambda each: int(bool(each.error)),
}
GROUP_METRICS: dict[Metric, Callable[[GroupPartition], Value]] = {
    kafka.GROUP_OFFSET: lambda each: each.committed,
    kafka.GROUP_LAG: lambda each: each.lag,
    GROUP_LAG_SECONDS: lambda each: each.seconds,
}


def page_lines(known: ClusterFigures) -> Iterator[str]:
    yield from _family(SNAPSHOT_AGE, [MetricRow("", known.age)])
    if known.is_stale:
        return
    snapshot = known.snapshot
    yield from _family(SNAPSHOT_SECONDS, [MetricRow("", snapshot.seconds)])
    yield from _broker_lines(snapshot)
    yield from _log_dir_lines(snapshot)
    yield from _topic_lines(snapshot)
    yield from _group_lines(snapshot, known.members)
    yield from _status_lines(known.statuses)


def _broker_lines(snapshot: ClusterSnapshot) -> Iterator[str]:
    brokers = [each.broker for each in snapshot.brokers.values()]
    yield from _family(kafka.BROKERS, [MetricRow("", len(brokers))])
    yield from _family(
        kafka.BROKER_INFO,
        (MetricRow(_labels(kafka.BROKER_INFO, each.id, each.address), 1) for each in brokers),
    )


def _log_dir_lines(snapshot: ClusterSnapshot) -> Iterator[str]:
    rows = (
        (_labels(LOG_DIR_TOTAL, node, log_dir.path), log_dir)
        for node, broker in snapshot.brokers.items()
        for log_dir in broker.log_dirs
    )
    yield from _by_metric(LOG_DIR_METRICS, rows)


def _status_lines(statuses: Iterable[ProcessStatus]) -> Iterator[str]:
    yield from _family(
        STATUS_STATE,
        (MetricRow(_labels(STATUS_STATE, each.kind, each.name, each.state), 1) for each in statuses),
    )
    yield from _family(
        STATUS_ALARMS,
        (MetricRow(_labels(STATUS_ALARMS, each.kind, each.name), len(each.alarms)) for each in statuses),
    )
    yield from _family(
        STATUS_LAG,
        (
            MetricRow(_labels(STATUS_LAG, each.kind, each.name, part.name), part.lag)
            for each in statuses
            for part in each.parts
        ),
    )


def _topic_lines(snapshot: ClusterSnapshot) -> Iterator[str]:
    topics = snapshot.topics.values()
    yield from _family(
        kafka.TOPIC_PARTITIONS,
        (MetricRow(_labels(kafka.TOPIC_PARTITIONS, each.name), len(each.layout)) for each in topics),
    )
    rows = (
        (_labels(kafka.CURRENT_OFFSET, topic.name, partition.partition), partition)
        for topic in topics
        for partition in topic.partitions()
    )
    yield from _by_metric(PARTITION_METRICS, rows)


def _group_lines(snapshot: ClusterSnapshot, members: Mapping[str, int]) -> Iterator[str]:
    known = ((name, members[name]) for name in snapshot.groups if name in members)
    yield from _family(
        kafka.GROUP_MEMBERS, (MetricRow(_labels(kafka.GROUP_MEMBERS, name), count) for name, count in known)
    )
    rows = (
        (_labels(kafka.GROUP_LAG, group.name, each.topic, each.partition), each)
        for group in snapshot.groups.values()
        for each in group.partitions()
    )
    yield from _by_metric(GROUP_METRICS, rows)
    topics = (
        (_labels(kafka.GROUP_LAG_SUM, group.name, topic.topic), list(topic.partitions()))
        for group in snapshot.groups.values()
        for topic in group.topics
    )
    yield from _by_metric(SUM_METRICS, topics)


def _sum_of(read: Callable[[GroupPartition], Value]) -> Callable[[list[GroupPartition]], Value]:
    def total(partitions: list[GroupPartition]) -> Value:
        known = [value for each in partitions if (value := read(each)) is not None]
        return sum(known) if known else None

    return total


SUM_METRICS: dict[Metric, Callable[[list[GroupPartition]], Value]] = {
    kafka.GROUP_OFFSET_SUM: _sum_of(GROUP_METRICS[kafka.GROUP_OFFSET]),
    kafka.GROUP_LAG_SUM: _sum_of(GROUP_METRICS[kafka.GROUP_LAG]),
}


def _by_metric(
    metrics: Mapping[Metric, Callable[[T], Value]], rows: Iterable[tuple[str, T]]
) -> Iterator[str]:
    """The first metric formats the labels; the others reuse them."""
    written: list[tuple[str, T]] = []
    for metric, read in metrics.items():
        source = written or _kept(rows, written)
        yield from _family(metric, (MetricRow(labels, read(each)) for labels, each in source))


def _kept(items: Iterable[T], kept: list[T]) -> Iterator[T]:
    for item in items:
        kept.append(item)
        yield item


def _family(metric: Metric, rows: Iterable[MetricRow]) -> Iterator[str]:
    yield header(metric)
    name = metric.name
    for labels, value in rows:
        if value is not None:
            yield f"{name}{labels} {number_text(value)}\n"


def _labels(metric: Metric, *values: object) -> str:
    return label_text(zip(metric.labels, map(str, values), strict=True))


def _known(value: int) -> int | None:
    return value if value >= 0 else None


# -- Rendering -----------------------------------------------------------------------------------------

LINES_PER_TURN = 500
"""A large cluster has half a million lines; rendering must not block other pages."""


class Exporter:
    def __init__(self, watch: ClusterWatch) -> None:
        self._watch = watch
        self._rendering: asyncio.Task[bytes] | None = None

    def lines(self) -> Iterator[str]:
        return page_lines(self._watch.known)

    async def page(self) -> bytes:
        """Page of the whole cluster; concurrent requests share one rendering."""
        if self._rendering is None:
            self._rendering = asyncio.create_task(self._render())
        return await asyncio.shield(self._rendering)

    async def close(self) -> None:
        if self._rendering is not None:
            self._rendering.cancel()
            with suppress(asyncio.CancelledError):
                await self._rendering

    async def _render(self) -> bytes:
        try:
            return await written(self._watch.known)
        finally:
            self._rendering = None


async def written(known: ClusterFigures) -> bytes:
    lines: list[str] = []
    for number, line in enumerate(page_lines(known)):
        lines.append(line)
        if number % LINES_PER_TURN == LINES_PER_TURN - 1:
            await asyncio.sleep(0)
    return "".join(lines).encode("utf-8", "replace")
