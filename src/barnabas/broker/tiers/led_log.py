"""The log of a partition that this broker leads, as the writer of its remote part sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.clock import Clock
from barnabas.log.log import Log
from barnabas.log.segments.scan import BadBatch
from barnabas.log.tiers.copying import SealedSegment as CopiedSegment
from barnabas.log.tiers.retention import RemoteSegment
from barnabas.replication.partition import Partition
from barnabas.tiering.claim import Claim, Decision, LogView
from barnabas.tiering.manifest import Manifest
from barnabas.tiering.reading.remote_log import RemoteLog
from barnabas.tiering.segment_build import InThread
from barnabas.tiering.segment_object import BadObjectError, OpenTransaction, SealedSegment
from barnabas.tiering.store import StoreError


class LedLog:
    """See `tiering.remote_writer.LedLog`. For one leader epoch."""

    def __init__(self, partition: Partition, remote: RemoteLog, clock: Clock, in_thread: InThread) -> None:
        self._partition = partition
        self._log: Log = partition.log
        self._remote = remote
        self._clock = clock
        self._in_thread = in_thread
        self._end_at_claim = -1

    def view(self) -> LogView:
        log = self._log
        self._end_at_claim = log.log_end_offset
        return LogView(log.log_start_offset, log.offsets.local_start, log.log_end_offset, log.epochs.entries)

    async def next_sealed(self, start: int) -> SealedSegment | None:
        log = self._log
        chosen = log.next_to_copy(self._clock.now_ms())
        if chosen is None or (log.offsets.tiered_end >= 0 and chosen.base != start):
            return None  # the high watermark of a new leader is still below what was copied
        try:
            copied = await self._in_thread(chosen.read)
        except BadBatch as bad:
            raise BadObjectError(f"{chosen.segments[0].file.path} is damaged: {bad}") from bad
        return _as_object(copied) if chosen.generation == log.generation else None

    def note_tiered_end(self, offset: int) -> None:
        self._log.note_tiered(offset)

    async def follow_claim(self, claim: Claim) -> None:
        log, end = self._log, self._end_at_claim
        if claim.decision is Decision.START_AT:
            found = await self._remote.bootstrap()
            if log.log_end_offset != end or found.tiered_end != claim.start_at:
                raise StoreError(
                    f"{self._partition.topic_partition} has taken records while its remote part was looked at"
                )
            log.start_at(found.tiered_end, found.log_start, found.epochs, found.producers)
        start = min(claim.log_start, log.high_watermark)
        if start > log.log_start_offset:
            log.advance_log_start(start)
            self._partition.log_start_moved()

    def note_log_start(self, offset: int) -> None:
        start = min(offset, self._log.high_watermark)
        if start > self._log.log_start_offset:
            self._log.advance_log_start(start)
            self._partition.log_start_moved()


def _as_object(copied: CopiedSegment) -> SealedSegment:
    opened = tuple(OpenTransaction(*each) for each in copied.open_transactions)
    return SealedSegment(*copied[:-1], open_transactions=opened)


class ManifestSegments:
    """The remote segments of a log, for its retention. A page counts as one segment: it expires as a whole."""

    def __init__(self, manifest: Callable[[], Manifest | None]) -> None:
        self._manifest = manifest

    @property
    def size_bytes(self) -> int:
        manifest = self._manifest()
        return manifest.size if manifest is not None else 0

    def oldest(self) -> Iterator[RemoteSegment]:
        manifest = self._manifest()
        for part in manifest.parts if manifest is not None else ():
            yield RemoteSegment(part.base, part.end, part.size, part.largest_timestamp)
