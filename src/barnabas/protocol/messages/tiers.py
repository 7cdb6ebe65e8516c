"""State of tiered storage, as tagged fields that Barnabas adds to Kafka's responses on request.

Kafka has no API for it. Clients ignore unknown tags, and these are sent only if the request has the corresponding tag.
"""

from __future__ import annotations

from barnabas.protocol.schema import Struct, boolean, int32, int64, string

OWN_TAG = 10_000
"""Tag of Barnabas fields, whose names begin with `barnabas_`; Kafka numbers its tags from 0."""


class PartitionTier(Struct):
    """Remote log of a partition, as known to its leader. -1: unknown."""

    state: str = string()
    """State of the writer: claiming, working, waiting, paused or fenced; empty if nothing is copied."""
    whole: bool = boolean()
    """True for a compacted topic, whose full log stays on disk."""
    tiered_end: int = int64(default=-1)
    remote_bytes: int = int64(default=-1)
    remote_segments: int = int32(default=-1)
    garbage_bytes: int = int64(default=-1)
    """Segments that are expired or replaced, but not deleted yet."""
    pending_bytes: int = int64(default=-1)
    """Bytes of closed segments that are not copied yet."""
    pending_segments: int = int32(default=-1)
    upload_bytes: int = int64(default=-1)
    """Bytes of the segment being copied; -1 if there is none."""
    uploaded_bytes: int = int64(default=-1)
    error: str = string()
    """Reason why copying is paused; empty if it is not."""
    error_since_ms: int = int64(default=-1)
    replica_bytes: int = int64(default=-1)
    """Bytes that a new replica copies from its leader: the full log, or records that are not remote."""


class BrokerTiers(Struct):
    """Tiered storage of one broker."""

    enabled: bool = boolean()
    error: str = string()
    """Reason why this broker copies nothing; empty if there is none."""
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
