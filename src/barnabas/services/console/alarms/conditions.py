"""Definition of alarms, and their conditions on the console's figures. A condition yields the affected resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from barnabas.services.console.exporter.watch import ClusterFigures
from barnabas.services.console.sampling.snapshot import GroupSample, GroupTopic, PartitionLayout, TopicSample


class Severity(Enum):
    CRITICAL = "critical"
    """Clients cannot read or write, or records may be lost: act now."""
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Area(Enum):
    """Dashboard that shows the alarm."""

    CLUSTER = "cluster"
    TOPICS = "topics"
    GROUPS = "groups"
    PIPELINES = "pipelines"


class Subject(Enum):
    """The affected resource; users who may describe it see the alarm."""

    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"


class AlarmFinding(NamedTuple):
    """One affected resource. `name` is unique within the alarm."""

    name: str
    text: str
    subject: Subject = Subject.CLUSTER
    resource: str = ""
    """Topic or group, for authorization and the link."""


Find = Callable[[ClusterFigures], Iterable[AlarmFinding]]


class Alarm(NamedTuple):
    name: str
    area: Area
    severity: Severity
    sentence: str
    action: str
    """Recommended action."""
    expression: str
    """Prometheus expression: one sample per affected resource."""
    seconds: int
    """Duration for which the condition must hold."""
    find: Find | None = None
    """The same condition on the console's figures; None if it needs broker metrics that only Prometheus scrapes."""


LAG_SECONDS = 300
DISK_SHARE = 0.1
"""Minimum free share of a disk."""
CERTIFICATE_SECONDS = 14 * 86_400
BUSY_PERCENT = 90
EMPTY = "Empty"
TROUBLED = ("failed", "lost")


# The cluster


def old_figures(known: ClusterFigures) -> Iterator[AlarmFinding]:
    if known.is_stale:
        yield AlarmFinding("cluster", known.snapshot.error or "The cluster has not answered yet.")


def missing_brokers(known: ClusterFigures) -> Iterator[AlarmFinding]:
    """Brokers that host replicas but are not in the cluster, and brokers that do not answer."""
    brokers = known.snapshot.brokers
    wanted = {
        node
        for topic in known.snapshot.topics.values()
        for partition in topic.layout
        for node in partition.replicas
    }
    for node in sorted(wanted - brokers.keys()):
        yield AlarmFinding(str(node), f"Broker {node} has replicas and is not in the cluster.")
    for node, broker in brokers.items():
        if broker.error:
            yield AlarmFinding(str(node), f"Broker {node} does not answer: {broker.error}")


def missing_controller(known: ClusterFigures) -> Iterator[AlarmFinding]:
    if not known.snapshot.is_empty and known.snapshot.controller < 0:
        yield AlarmFinding("controller", "No broker is the controller.")


def failed_log_dirs(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for node, broker in known.snapshot.brokers.items():
        for log_dir in broker.log_dirs:
            if log_dir.error:
                yield AlarmFinding(
                    f"{node}:{log_dir.path}", f"{log_dir.path} of broker {node}: {log_dir.error}"
                )


def full_disks(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for node, broker in known.snapshot.brokers.items():
        for log_dir in broker.log_dirs:
            if log_dir.total > 0 and 0 <= log_dir.usable < DISK_SHARE * log_dir.total:
                percent = 100 * log_dir.usable / log_dir.total
                yield AlarmFinding(
                    f"{node}:{log_dir.path}", f"{percent:.1f} % of {log_dir.path} of broker {node} are free."
                )


# Topics


def _partitions(known: ClusterFigures) -> Iterator[tuple[TopicSample, PartitionLayout]]:
    for topic in known.snapshot.topics.values():
        for partition in topic.layout:
            yield topic, partition


def _partition(topic: TopicSample, partition: PartitionLayout, text: str) -> AlarmFinding:
    return AlarmFinding(f"{topic.name}-{partition.index}", text, Subject.TOPIC, topic.name)


def leaderless_partitions(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for topic, partition in _partitions(known):
        if partition.leader < 0:
            last = ", ".join(map(str, partition.isr or partition.replicas))
            text = f"{topic.name}-{partition.index} waits for one of these brokers: {last}."
            yield _partition(topic, partition, text)


def last_replicas(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for topic, partition in _partitions(known):
        if partition.leader >= 0 and len(partition.isr) == 1 < len(partition.replicas):
            text = f"Only broker {partition.isr[0]} is in sync for {topic.name}-{partition.index}."
            yield _partition(topic, partition, text)


def under_replicated_partitions(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for topic, partition in _partitions(known):
        if len(partition.isr) < len(partition.replicas):
            behind = ", ".join(str(node) for node in partition.replicas if node not in partition.isr)
            text = f"{topic.name}-{partition.index} is not in sync on these brokers: {behind}."
            yield _partition(topic, partition, text)


def moved_leaders(known: ClusterFigures) -> Iterator[AlarmFinding]:
    """One finding per topic: a restarted broker leads no partitions until a leader election."""
    for topic in known.snapshot.topics.values():
        moved = sum(
            partition.leader >= 0 and partition.leader != partition.replicas[0] for partition in topic.layout
        )
        if moved:
            text = f"{moved} of {len(topic.layout)} partitions of {topic.name} are led by another replica."
            yield AlarmFinding(topic.name, text, Subject.TOPIC, topic.name)


def under_min_isr(known: ClusterFigures) -> Iterator[AlarmFinding]:
    """Only brokers that serve metrics report it."""
    for node, broker in known.snapshot.brokers.items():
        for tp in broker.under_min_isr:
            text = f"{tp} on broker {node} has fewer replicas in sync than min.insync.replicas."
            yield AlarmFinding(str(tp), text, Subject.TOPIC, tp.topic)


# Metrics of brokers


def expiring_certificates(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for node, broker in known.snapshot.brokers.items():
        expiry = broker.certificate_expiry
        if expiry is not None and expiry - known.snapshot.taken_ms / 1000 < CERTIFICATE_SECONDS:
            timestamp = datetime.fromtimestamp(expiry, UTC)
            text = f"A certificate of broker {node} expires at {timestamp:%Y-%m-%d %H:%M} UTC."
            yield AlarmFinding(str(node), text)


def busy_brokers(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for node, broker in known.snapshot.brokers.items():
        if broker.loop_busy is not None and broker.loop_busy > BUSY_PERCENT:
            text = f"The loop of broker {node} is busy for {broker.loop_busy:.0f} % of the time."
            yield AlarmFinding(str(node), text)


def lost_audit_events(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for node, broker in known.snapshot.brokers.items():
        if broker.audit_lost > 0:
            text = f"Broker {node} lost {broker.audit_lost:,.0f} events of its audit log in the last ten minutes."
            yield AlarmFinding(str(node), text)


# Groups


def _group(group: GroupSample, text: str, name: str = "") -> AlarmFinding:
    return AlarmFinding(name or group.name, text, Subject.GROUP, group.name)


def late_groups(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for group in known.snapshot.groups.values():
        if group.lag_seconds is not None and group.lag_seconds > LAG_SECONDS:
            text = f"{group.name} is {group.lag_seconds:,.0f} s and {group.lag or 0:,} records behind."
            yield _group(group, text)


def stuck_groups(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for group in known.snapshot.groups.values():
        if group.lag and group.rate == 0 and group.state != EMPTY:
            yield _group(group, f"{group.name} commits nothing and is {group.lag:,} records behind.")


def abandoned_groups(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for group in known.snapshot.groups.values():
        if group.lag and group.state == EMPTY:
            yield _group(group, f"{group.name} has no members and is {group.lag:,} records behind.")


def lost_records(known: ClusterFigures) -> Iterator[AlarmFinding]:
    """Records deleted by retention before an active group read them."""
    for group in known.snapshot.groups.values():
        for read in group.topics if group.state != EMPTY else ():
            topic = known.snapshot.topics.get(read.topic)
            lost = _lost(read, topic) if topic is not None else 0
            if lost:
                text = f"{lost:,} offsets of {read.topic} were deleted before {group.name} had read them."
                yield _group(group, text, f"{group.name}/{read.topic}")


def _lost(read: GroupTopic, topic: TopicSample) -> int:
    starts = topic.starts
    return sum(
        max(starts[index] - committed, 0)
        for index, committed in zip(read.indexes, read.committed, strict=True)
        if index < len(starts)
    )


# Pipelines, connectors, mirrors and agents


def troubled_movers(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for status in known.statuses:
        if status.state in TROUBLED:
            name = f"{status.kind} {status.name}"
            reason = status.error or "it has not reported in time"
            yield AlarmFinding(name, f"The {name} on {status.host or 'its host'} is {status.state}: {reason}")


def failed_mirrors(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for status in known.statuses:
        for part in status.parts if status.kind == "mirror" else ():
            if part.state == "failed":
                text = f"{part.name} is not mirrored by {status.name}: {part.reason or 'its state is failed'}"
                yield AlarmFinding(f"{status.name}/{part.name}", text, Subject.TOPIC, part.name)


def alarms_of_movers(known: ClusterFigures) -> Iterator[AlarmFinding]:
    for status in known.statuses:
        for alarm in status.alarms:
            name = f"{status.kind} {status.name}"
            yield AlarmFinding(f"{name}: {alarm}", f"The {name} says: {alarm}")
