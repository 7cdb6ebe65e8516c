"""The exporter's page, line by line: a snapshot in Prometheus' text format.

A large cluster has half a million lines, so labels are written once for all metrics of a partition, and nothing is done
between two lines that takes long. What is not known has no sample: an offset that no broker told, the lag of a
partition without a commit. Figures that are old are not shown at all: nobody could tell them from new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from barnabas.client.status import Status
from barnabas.services.console.exporter import catalogue
from barnabas.services.console.exporter.known import Known
from barnabas.services.console.sampling.snapshot import GroupPartition, LogDirSample, PartitionSample, Snapshot
from barnabas.metrics import exporter_catalogue as kafka
from barnabas.metrics.declarations import Metric
from barnabas.metrics.text import header, label_text, number_text

Value = float | None
T = TypeVar("T")


class Row(NamedTuple):
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
    catalogue.LOG_DIR_TOTAL: lambda each: _known(each.total),
    catalogue.LOG_DIR_USABLE: lambda each: _known(each.usable),
    catalogue.LOG_DIR_FAILED: lambda each: int(bool(each.error)),
}
GROUP_METRICS: dict[Metric, Callable[[GroupPartition], Value]] = {
    kafka.GROUP_OFFSET: lambda each: each.committed,
    kafka.GROUP_LAG: lambda each: each.lag,
    catalogue.GROUP_LAG_SECONDS: lambda each: each.seconds,
}


def page_lines(known: Known) -> Iterator[str]:
    yield from _family(catalogue.SNAPSHOT_AGE, [Row("", known.age)])
    if known.is_stale:
        return
    snapshot = known.snapshot
    yield from _family(catalogue.SNAPSHOT_SECONDS, [Row("", snapshot.seconds)])
    yield from _broker_lines(snapshot)
    yield from _log_dir_lines(snapshot)
    yield from _topic_lines(snapshot)
    yield from _group_lines(snapshot, known.members)
    yield from _status_lines(known.statuses)


def _broker_lines(snapshot: Snapshot) -> Iterator[str]:
    brokers = [each.broker for each in snapshot.brokers.values()]
    yield from _family(kafka.BROKERS, [Row("", len(brokers))])
    yield from _family(
        kafka.BROKER_INFO, (Row(_labels(kafka.BROKER_INFO, each.id, each.address), 1) for each in brokers)
    )


def _log_dir_lines(snapshot: Snapshot) -> Iterator[str]:
    places = (
        (_labels(catalogue.LOG_DIR_TOTAL, node, place.path), place)
        for node, broker in snapshot.brokers.items()
        for place in broker.log_dirs
    )
    yield from _by_place(LOG_DIR_METRICS, places)


def _status_lines(statuses: Iterable[Status]) -> Iterator[str]:
    yield from _family(
        catalogue.STATUS_STATE,
        (Row(_labels(catalogue.STATUS_STATE, each.kind, each.name, each.state), 1) for each in statuses),
    )
    yield from _family(
        catalogue.STATUS_ALARMS,
        (Row(_labels(catalogue.STATUS_ALARMS, each.kind, each.name), len(each.alarms)) for each in statuses),
    )
    yield from _family(
        catalogue.STATUS_LAG,
        (
            Row(_labels(catalogue.STATUS_LAG, each.kind, each.name, part.name), part.lag)
            for each in statuses
            for part in each.parts
        ),
    )


def _topic_lines(snapshot: Snapshot) -> Iterator[str]:
    topics = snapshot.topics.values()
    yield from _family(
        kafka.TOPIC_PARTITIONS,
        (Row(_labels(kafka.TOPIC_PARTITIONS, each.name), len(each.layout)) for each in topics),
    )
    places = (
        (_labels(kafka.CURRENT_OFFSET, topic.name, partition.partition), partition)
        for topic in topics
        for partition in topic.partitions()
    )
    yield from _by_place(PARTITION_METRICS, places)


def _group_lines(snapshot: Snapshot, members: Mapping[str, int]) -> Iterator[str]:
    known = ((name, members[name]) for name in snapshot.groups if name in members)
    yield from _family(
        kafka.GROUP_MEMBERS, (Row(_labels(kafka.GROUP_MEMBERS, name), count) for name, count in known)
    )
    places = (
        (_labels(kafka.GROUP_LAG, group.name, each.topic, each.partition), each)
        for group in snapshot.groups.values()
        for each in group.partitions()
    )
    yield from _by_place(GROUP_METRICS, places)
    topics = (
        (_labels(kafka.GROUP_LAG_SUM, group.name, topic.topic), list(topic.partitions()))
        for group in snapshot.groups.values()
        for topic in group.topics
    )
    yield from _by_place(SUM_METRICS, topics)


def _sum_of(read: Callable[[GroupPartition], Value]) -> Callable[[list[GroupPartition]], Value]:
    def total(partitions: list[GroupPartition]) -> Value:
        known = [value for each in partitions if (value := read(each)) is not None]
        return sum(known) if known else None

    return total


SUM_METRICS: dict[Metric, Callable[[list[GroupPartition]], Value]] = {
    kafka.GROUP_OFFSET_SUM: _sum_of(GROUP_METRICS[kafka.GROUP_OFFSET]),
    kafka.GROUP_LAG_SUM: _sum_of(GROUP_METRICS[kafka.GROUP_LAG]),
}


def _by_place(
    metrics: Mapping[Metric, Callable[[T], Value]], places: Iterable[tuple[str, T]]
) -> Iterator[str]:
    """The first metric writes the labels, and the others take them over."""
    written: list[tuple[str, T]] = []
    for metric, read in metrics.items():
        source = written or _kept(places, written)
        yield from _family(metric, (Row(labels, read(each)) for labels, each in source))


def _kept(items: Iterable[T], kept: list[T]) -> Iterator[T]:
    for item in items:
        kept.append(item)
        yield item


def _family(metric: Metric, rows: Iterable[Row]) -> Iterator[str]:
    yield header(metric)
    name = metric.name
    for labels, value in rows:
        if value is not None:
            yield f"{name}{labels} {number_text(value)}\n"


def _labels(metric: Metric, *values: object) -> str:
    return label_text(zip(metric.labels, map(str, values), strict=True))


def _known(value: int) -> int | None:
    return value if value >= 0 else None
