"""Internal topics of the coordinators, and the partition of each that coordinates a key.

The partition comes from Java's string hash, as in every Kafka broker.
"""

from __future__ import annotations

import sys
from array import array
from functools import lru_cache
from operator import mul
from typing import NamedTuple

from barnabas.common.types import Uuid, uuid_to_text

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

CLUSTER_METADATA = "__cluster_metadata"
"""KRaft's metadata topic. It cannot be created here, because tools would read it as KRaft metadata."""


NO_OFFSET = -1
"""Start offset of a share partition that was never read: `share.auto.offset.reset` determines its start."""
REMEMBERED_KEYS = 10_000  # most commits come from the same groups
_MIN_INT = -(1 << 31)
_UTF_16 = f"utf-16-{sys.byteorder[0]}e"
_CHUNK = 256  # characters hashed at once; longer keys are not cached
_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(2 * _CHUNK + 1)]  # a character may be two units


def java_hash(text: str) -> int:
    """Compute `String.hashCode()`: 31 * hash + UTF-16 unit, in 32 signed bits.

    Many keys of one share group begin with its id, which may have up to 32,767 bytes.
    """
    chunked = len(text) - len(text) % _CHUNK
    value = _hashed(text[chunked:], _hash_of_chunks(text[:chunked]) if chunked else 0)
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(16)
def _hash_of_chunks(text: str) -> int:
    value = 0
    for start in range(0, len(text), _CHUNK):
        value = _hashed(text[start : start + _CHUNK], value)
    return value


def _hashed(chunk: str, before: int) -> int:
    """Extend an unsigned hash by a chunk."""
    units = array("H", chunk.encode(_UTF_16, "surrogatepass"))
    value: int = before * _POWERS[len(units)] + sum(map(mul, reversed(units), _POWERS))
    return value & 0xFFFFFFFF


def partition_for(key: str, partitions: int) -> int:
    """Return the partition that coordinates a key."""
    find = _remembered_partition if len(key) <= _CHUNK else _partition_for
    return find(key, partitions)


def _partition_for(key: str, partitions: int) -> int:
    """Return the partition; the smallest int has no absolute value, and Kafka maps it to partition 0."""
    value = java_hash(key)
    return 0 if value == _MIN_INT else abs(value) % partitions


_remembered_partition = lru_cache(REMEMBERED_KEYS)(_partition_for)


class SharePartitionKey(NamedTuple):
    """One share group's view of one partition."""

    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """Key of FindCoordinator (key type 2): it determines the partition of `__share_group_state`."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"
