"""Status and metrics of a link."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from barnabas.client.mirrors.store import LinkStatus
from barnabas.client.status import ProcessStatus, StatusPart
from barnabas.client.status import State as Word
from barnabas.metrics import Metric, Registry, Sample, counter, gauge
from barnabas.services.mirror.leader_workers import LinkState
from barnabas.services.mirror.links import LinkTopics
from barnabas.services.mirror.partition import SourcePartition

WORDS: dict[LinkStatus, Word] = {
    LinkStatus.FAILED: "failed",
    LinkStatus.SOURCE_UNAVAILABLE: "retrying",
    LinkStatus.PAUSED: "paused",
    LinkStatus.PROMOTING: "stopped",
    LinkStatus.STOPPED: "stopped",
    LinkStatus.ACTIVE: "running",
}
"""Ordered by severity: the state of a topic is that of its worst partition."""

LAG = gauge(
    "barnabas_mirror_lag_offsets", "Offsets by which the target lags behind the source.", "link", "topic"
)
LAG_SECONDS = gauge(
    "barnabas_mirror_lag_seconds",
    "Time since the target last had all records of the source.",
    "link",
    "topic",
)
PARTITIONS = gauge("barnabas_mirror_partitions", "Partitions by state.", "link", "state")
BYTES = counter("barnabas_mirror_bytes_total", "Bytes of batches appended to the target.", "link")
GROUPS = gauge("barnabas_mirror_groups_followed", "Groups whose offsets follow those of the source.", "link")
LEFT_ALONE = gauge(
    "barnabas_mirror_groups_left_alone",
    "Groups in use on the target, whose offsets are not mirrored.",
    "link",
)


class Carries(Protocol):
    """A target that counts bytes."""

    @property
    def bytes(self) -> int: ...


class ReportedLink(Protocol):
    """Parts of a link used in reports."""

    @property
    def name(self) -> str: ...

    @property
    def topics(self) -> LinkTopics: ...

    @property
    def data(self) -> Carries: ...

    @property
    def error(self) -> str: ...


def word_of(partitions: Iterable[SourcePartition]) -> Word:
    there = {partition.state for partition in partitions}
    if there and there <= {LinkStatus.STOPPED, LinkStatus.PROMOTING}:
        return "stopped"
    return next((word for state, word in WORDS.items() if state in there and word != "stopped"), "running")


def status_of(link: ReportedLink, now: float) -> ProcessStatus:
    topics = link.topics
    if topics is None or (not topics.book.topics and link.error):
        return ProcessStatus("mirror", link.name, "retrying" if link.error else "starting", error=link.error)
    partitions, notices = list(topics.book.partitions.values()), topics.notices
    parts = [_part(topics, name, own, now) for name, own in _by_topic(topics.book)]
    alarms = [f"{part.name}: {part.reason}" for part in parts if part.state == "failed"]
    alarms += [f"{name} is not mirrored: {reason}" for name, reason in sorted(notices.refused.items())]
    alarms += [f"group {name} is skipped: {reason}" for name, reason in sorted(notices.groups.items())]
    alarms += [*notices.settings, *([notices.acls] if notices.acls else [])]
    return ProcessStatus(
        "mirror",
        link.name,
        "retrying" if link.error else word_of(partitions),
        error=link.error,
        alarms=alarms,
        counts={
            "lag": _total_lag(partitions),
            "lag_ms": _longest_lag(partitions, now),
            "partitions": len(partitions),
            "bytes": link.data.bytes,
            "groups": notices.groups_followed,
        },
        parts=parts,
    )


def _by_topic(book: LinkState) -> list[tuple[str, list[SourcePartition]]]:
    found: dict[str, list[SourcePartition]] = defaultdict(list)
    for tp, partition in book.partitions.items():
        found[tp.topic].append(partition)
    return sorted(found.items())


def _part(topics: LinkTopics, name: str, partitions: Sequence[SourcePartition], now: float) -> StatusPart:
    reasons = sorted({each.reason for each in partitions if each.reason})
    return StatusPart(
        topics.book.topics[name].target,
        word_of(partitions),
        "; ".join(reasons[:3]),
        _total_lag(partitions),
        {"lag_ms": _longest_lag(partitions, now), "partitions": len(partitions)},
    )


def _total_lag(partitions: Iterable[SourcePartition]) -> int:
    return sum(each.lag or 0 for each in partitions)


def _longest_lag(partitions: Iterable[SourcePartition], now: float) -> int:
    return max((each.lag_ms(now) or 0 for each in partitions), default=0)


def mirror_metrics(links: Sequence[ReportedLink]) -> Registry:
    registry = Registry()
    registry.computed(LAG, lambda: _per_topic(links, LAG))
    registry.computed(LAG_SECONDS, lambda: _per_topic(links, LAG_SECONDS))
    registry.computed(PARTITIONS, lambda: _per_state(links))
    registry.computed(BYTES, lambda: _per_link(links, BYTES))
    registry.computed(GROUPS, lambda: _per_link(links, GROUPS))
    registry.computed(LEFT_ALONE, lambda: _per_link(links, LEFT_ALONE))
    return registry


def _per_topic(links: Sequence[ReportedLink], metric: Metric) -> Iterator[Sample]:
    now = time.time()
    for link in links:
        for name, own in _by_topic(link.topics.book):
            value = _total_lag(own) if metric is LAG else _longest_lag(own, now) / 1000
            yield Sample("", (("link", link.name), ("topic", name)), value)


def _per_state(links: Sequence[ReportedLink]) -> Iterator[Sample]:
    for link in links:
        for state in LinkStatus:
            yield Sample("", (("link", link.name), ("state", state.value)), len(link.topics.book.of(state)))


def _per_link(links: Sequence[ReportedLink], metric: Metric) -> Iterator[Sample]:
    for link in links:
        notices = link.topics.notices
        values = {BYTES: link.data.bytes, GROUPS: notices.groups_followed, LEFT_ALONE: len(notices.groups)}
        yield Sample("", (("link", link.name),), values[metric])
