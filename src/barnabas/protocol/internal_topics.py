"""The internal topics of coordinators, and which of their partitions coordinates a key.

That is Java's string hash, as every Kafka broker computes it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from barnabas.types import Uuid, uuid_to_text

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

CLUSTER_METADATA = "__cluster_metadata"
"""The topic KRaft keeps its metadata in. Nobody may create it, because tools take it for that."""


NO_OFFSET = -1
"""The start offset of a share partition that was never read: `share.auto.offset.reset` decides where it starts."""
REMEMBERED_KEYS = 10_000  # the same groups commit again and again
_SMALLEST_INT = -(1 << 31)


def java_hash(text: str) -> int:
    """`String.hashCode()`: 31 * hash + UTF-16 unit, in 32 signed bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(REMEMBERED_KEYS)
def partition_for(key: str, partitions: int) -> int:
    """The smallest int has no positive twin; Kafka sends it to partition 0."""
    value = java_hash(key)
    return 0 if value == _SMALLEST_INT else abs(value) % partitions


class SharePartitionKey(NamedTuple):
    """One share group's view of one partition."""

    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """Decides which partition of `__share_group_state` holds it (FindCoordinator's key type 2)."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"
