"""Which partition a record belongs to, as Kafka's default partitioner decides it.

Every client that wants a key's records in one partition must compute the same number (murmur2), so this is a part of
the protocol, although no broker ever checks it.
"""

from __future__ import annotations

from struct import Struct

from barnabas.common.errors import ErrorCode, KafkaError

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF


def choose_partition(topic: str, key: bytes | None, wanted: int | None, count: int) -> int | None:
    """The partition that was asked for, or that of the key; None where the producer is free to choose."""
    if wanted is None:
        return None if key is None else partition_for_key(key, count)
    if not 0 <= wanted < count:
        text = f"topic {topic!r} has partitions 0 to {count - 1}; there is no {wanted}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return wanted


def murmur2(data: bytes) -> int:
    """The hash as an unsigned number of 32 bits (Java shows the same bits as a signed one)."""
    length = len(data)
    state = (_SEED ^ length) & _MASK
    for (word,) in Struct("<I").iter_unpack(data[: length & ~3]):
        mixed = word * _MULTIPLIER & _MASK
        mixed = (mixed ^ mixed >> _SHIFT) * _MULTIPLIER & _MASK
        state = state * _MULTIPLIER & _MASK ^ mixed
    if tail := data[length & ~3 :]:
        state = (state ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
