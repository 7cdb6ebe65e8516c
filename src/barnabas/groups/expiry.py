"""Which committed offsets are too old to keep."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.groups.classic import ClassicGroup, State
from barnabas.groups.offsets import NO_EXPIRY, Committed, Offsets
from barnabas.groups.subscriptions import CONSUMER_PROTOCOL
from barnabas.types import TopicPartition

Age = Callable[[Committed], int]


def expired_offsets(
    group: ClassicGroup, offsets: Offsets, pending: set[TopicPartition], now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """What offsets.retention.minutes takes away (KIP-211). An offset in an open transaction stays."""
    since = _retained_since(group)
    if since is None:
        return []
    return [
        place
        for place, committed in offsets.items()
        if place not in pending
        and not group.consumes(place.topic)
        and _is_over(committed, since(committed), now_ms, retention_ms)
    ]


def _retained_since(group: ClassicGroup) -> Age | None:
    """From when on the retention of an offset counts; None: not as long as the group is as it is."""
    if group.protocol_type is None:
        return _commit_time  # nobody ever joined: a consumer that assigns itself its partitions
    if group.state is State.EMPTY:
        return lambda committed: group.state_since_ms
    if (
        group.state is State.STABLE
        and group.protocol_type == CONSUMER_PROTOCOL
        and group.subscribed is not None
    ):
        return _commit_time  # of topics that no member consumes any longer
    return None


def _commit_time(committed: Committed) -> int:
    return committed.commit_ms


def _is_over(committed: Committed, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_ms != NO_EXPIRY:
        return now_ms >= committed.expire_ms
    return now_ms - since_ms >= retention_ms
