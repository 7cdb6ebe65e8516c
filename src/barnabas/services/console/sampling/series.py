"""What of a snapshot is recorded: the cluster, its brokers, all groups, and the topics that are written to."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from barnabas.services.console.sampling.slices import Slices
from barnabas.services.console.sampling.snapshot import GroupSample, Snapshot, TopicSample


def topic_series(topic: str, what: str) -> str:
    """`topic/{topic}/in`; names are quoted as in a URL, so that a slash in one is no separator."""
    return f"topic/{quote(topic, safe='')}/{what}"


def group_series(group: str, *what: str) -> str:
    """`group/{group}/lag`, or `group/{group}/{topic}/lag`."""
    return "/".join(("group", *(quote(part, safe="") for part in (group, *what))))


class SeriesNames:
    """Remembers which topics have been active: from then on they have a curve. Thousands that are idle have none."""

    def __init__(self) -> None:
        self._active: set[str] = set()

    async def series_of(self, snapshot: Snapshot) -> dict[str, float]:
        """The most important first: when there are too many, the last are not recorded."""
        values = dict(_of_cluster(snapshot))
        slices = Slices()
        for group in snapshot.groups.values():
            values.update(_of_group(group))
            await slices.rest()
        for topic in snapshot.topics.values():
            if topic.rate_in or topic.rate_out or topic.name in self._active:
                self._active.add(topic.name)
                values.update(_of_topic(topic))
            await slices.rest()
        return values


def _of_cluster(snapshot: Snapshot) -> Iterator[tuple[str, float]]:
    totals = snapshot.totals
    yield "cluster/offline", totals.offline
    yield "cluster/under_replicated", totals.under_replicated
    yield "cluster/bytes", totals.size
    rates = (("in", totals.rate_in), ("out", totals.rate_out), ("lag", totals.lag))
    yield from ((f"cluster/{name}", value) for name, value in rates if value is not None)
    if totals.worst is not None and totals.worst.seconds is not None:
        yield "cluster/lag_seconds", totals.worst.seconds
    for broker_id, broker in snapshot.brokers.items():
        yield f"broker/{broker_id}/bytes", sum(log_dir.used for log_dir in broker.log_dirs)
        yield f"broker/{broker_id}/leaders", broker.leaders
        if broker.loop_busy is not None:
            yield f"broker/{broker_id}/loop_busy", broker.loop_busy
        if broker.produce_p99_ms is not None:
            yield f"broker/{broker_id}/p99", broker.produce_p99_ms


def _of_group(group: GroupSample) -> Iterator[tuple[str, float]]:
    if group.lag is not None:
        yield group_series(group.name, "lag"), group.lag
    if group.lag_seconds is not None:
        yield group_series(group.name, "lag_seconds"), group.lag_seconds
    if group.rate is not None:
        yield group_series(group.name, "rate"), group.rate
    yield from ((group_series(group.name, topic.topic, "lag"), topic.lag) for topic in group.topics)


def _of_topic(topic: TopicSample) -> Iterator[tuple[str, float]]:
    if topic.rate_in is not None:
        yield topic_series(topic.name, "in"), topic.rate_in
    if topic.rate_out is not None:
        yield topic_series(topic.name, "out"), topic.rate_out
    if topic.size >= 0:
        yield topic_series(topic.name, "bytes"), topic.size
