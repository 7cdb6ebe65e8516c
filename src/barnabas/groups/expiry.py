"""Which committed offsets are too old to keep."""

from __future__ import annotations

from barnabas.groups.group import Group
from barnabas.groups.offsets import NO_EXPIRY, Committed, Offsets
from barnabas.types import TopicPartition


def expired_offsets(
    group: Group, offsets: Offsets, pending: set[TopicPartition], now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """What offsets.retention.minutes takes away (KIP-211). An offset in an open transaction stays."""
    since = group.retained_since()
    if since is None:
        return []
    return [
        place
        for place, committed in offsets.items()
        if place not in pending
        and not group.consumes(place.topic)
        and _is_over(committed, since(committed), now_ms, retention_ms)
    ]


def _is_over(committed: Committed, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_ms != NO_EXPIRY:
        return now_ms >= committed.expire_ms
    return now_ms - since_ms >= retention_ms
