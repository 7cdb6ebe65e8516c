"""What Barnabas tells of tiered storage beside Kafka's own answers, in tagged fields that come only to those who ask.

Kafka has no API for it. A client that does not know these tags passes over them, and never sees them unless it asks.
"""

from __future__ import annotations

from barnabas.protocol.schema import Struct, boolean, int32, int64, string

OWN_TAG = 10_000
"""Kafka numbers its tags from 0; fields of ours begin with `barnabas_`."""


class PartitionTier(Struct):
    """The remote part of a partition, as its leader knows it. -1: unknown."""

    state: str = string()
    """Of its writer: claiming, working, waiting, paused or fenced; empty if nothing is copied."""
    whole: bool = boolean()
    """A compacted one, of which nothing leaves the disk."""
    tiered_end: int = int64(default=-1)
    remote_bytes: int = int64(default=-1)
    remote_segments: int = int32(default=-1)
    garbage_bytes: int = int64(default=-1)
    """Expired or replaced, and not deleted yet."""
    pending_bytes: int = int64(default=-1)
    """Of sealed segments that are not copied."""
    pending_segments: int = int32(default=-1)
    upload_bytes: int = int64(default=-1)
    """Of the segment on its way; -1 if there is none."""
    uploaded_bytes: int = int64(default=-1)
    error: str = string()
    """Why copying pauses; empty if it does not."""
    error_since_ms: int = int64(default=-1)
    replica_bytes: int = int64(default=-1)
    """What a new replica copies from its leader: all, or what is not remote."""


class BrokerTiers(Struct):
    """Tiered storage of one broker."""

    enabled: bool = boolean()
    error: str = string()
    """Why it copies nothing at all; empty if nothing is wrong."""
    error_since_ms: int = int64(default=-1)
    store_down: bool = boolean()
    cache_limit_bytes: int = int64()
    cache_disk_bytes: int = int64()
    cache_memory_bytes: int = int64()
    cache_hits: int = int64()
    cache_misses: int = int64()
    cache_evicted: int = int64()
    downloads: int = int32()
    downloads_waiting: int = int32()
    store_reads: int = int64()
    failed_store_reads: int = int64()
    read_bytes_per_second: int = int64()
    copy_bytes_per_second: int = int64()
