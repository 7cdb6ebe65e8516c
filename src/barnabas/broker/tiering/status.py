"""Status of tiered storage, reported over Kafka's protocol (`barnabas tier status`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log import Log
from barnabas.log.tiering import replica_bytes, stays_whole, uncopied_sizes
from barnabas.protocol.messages.tiers import BrokerTiers, PartitionTier

if TYPE_CHECKING:
    from barnabas.tiering.objects import Manifest
    from barnabas.tiering.reading import ReadingParts
    from barnabas.tiering.writing import RemoteWriter, UploadLimiter


class TieringProblem:
    """Problem that prevents all uploads, and its start time."""

    def __init__(self) -> None:
        self.text = ""
        self.since_ms = -1

    def say(self, text: str, now_ms: int) -> None:
        self.since_ms = now_ms if not self.text else self.since_ms
        self.text = text

    def is_over(self) -> None:
        self.text, self.since_ms = "", -1


def describe_partition(log: Log, writer: RemoteWriter | None, problem: TieringProblem) -> PartitionTier:
    """Describe a partition led by this broker. `writer` is None if it is not copied, or not yet."""
    described = PartitionTier(replica_bytes=replica_bytes(log))
    if not log.config.remote_storage_enable and writer is None:
        return described
    described.whole = stays_whole(log)
    pending = pending_sizes(log, writer)
    described.pending_bytes, described.pending_segments = sum(pending), len(pending)
    described.error, described.error_since_ms = problem.text, problem.since_ms
    if writer is not None:
        _describe_writer(described, writer)
    return described


def pending_sizes(log: Log, writer: RemoteWriter | None) -> list[int]:
    """Bytes of each sealed segment that is not yet copied."""
    of_whole = writer.pending_sizes() if writer is not None else None
    return uncopied_sizes(log) if of_whole is None else of_whole


def _describe_writer(described: PartitionTier, writer: RemoteWriter) -> None:
    described.state = writer.state.value
    if writer.error is not None:
        described.error, described.error_since_ms = writer.error, writer.error_since_ms
    if (upload := writer.uploading) is not None:
        described.upload_bytes, described.uploaded_bytes = upload.size, min(upload.sent, upload.size)
    if (manifest := writer.manifest) is not None:
        described.tiered_end = manifest.tiered_end
        described.remote_bytes = manifest.size
        described.remote_segments = count_segments(manifest)
        described.garbage_bytes = sum(each.size for each in manifest.garbage)


def count_segments(manifest: Manifest | None) -> int:
    return 0 if manifest is None else len(manifest.entries) + sum(page.count for page in manifest.pages)


def describe_broker(parts: ReadingParts, pacer: UploadLimiter, problem: TieringProblem) -> BrokerTiers:
    cache, store = parts.chunks, parts.store
    return BrokerTiers(
        enabled=True,
        error=problem.text,
        error_since_ms=problem.since_ms,
        store_down=store.is_down,
        cache_limit_bytes=cache.limit,
        cache_disk_bytes=cache.used,
        cache_memory_bytes=cache.memory.used,
        cache_hits=cache.hits,
        cache_misses=cache.misses,
        cache_evicted=cache.evicted,
        downloads=cache.running,
        downloads_waiting=cache.waiting,
        store_reads=store.requests,
        failed_store_reads=store.failures,
        read_bytes_per_second=int(cache.quota.traffic.bytes_per_second),
        copy_bytes_per_second=int(pacer.traffic.bytes_per_second),
    )
