"""Which partition of an internal topic coordinates a key: Java's string hash, as every Kafka broker computes it."""

from __future__ import annotations

from functools import lru_cache

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
