"""Log of a partition led by this broker, as seen by its remote writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.broker.tiering.restored_partitions import settled, written
from barnabas.common.clock import Clock
from barnabas.common.safe_logging import safe_logger
from barnabas.log import NOTHING_TIERED, Log
from barnabas.log.segments import BadBatch
from barnabas.log.tiering import (
    CompactedSegment,
    RemoteSegment,
    SealedSegment,
    lost_markers,
    rebuilding,
    still_exists,
    to_copy,
    whole_parts,
    write_lost_markers,
)
from barnabas.log.tiering import is_lost as is_lost_log
from barnabas.records.batch import iterate_headers
from barnabas.replication import Partition
from barnabas.replication.follower import pieces
from barnabas.tiering.objects import BadObjectError, InThread, Manifest
from barnabas.tiering.reading import RemoteLog
from barnabas.tiering.stores import StoreError
from barnabas.tiering.writing import Claim, Decision, LogView

# -- Recovery of a lost compacted log from its tiered copy ---------------------------------------------


async def take_back(
    log: Log, remote: RemoteLog, leader_epoch: int, clock: Clock, is_ours: Callable[[], bool]
) -> None:
    """Append all records of the remote copy while `is_ours` holds; nothing else may write to the log. After an
    interruption it starts over (`rebuilding.is_unfinished`). Raises StoreError if the copy cannot be read."""
    found = await remote.bootstrap()
    logger.warning(
        "restoring %s from the object store up to offset %d", log.topic_partition, found.tiered_end
    )
    rebuilding.begin(log)
    async for batches in remote.all_batches():
        view = memoryview(batches)
        for piece in pieces(list(iterate_headers(view))):
            if not is_ours():
                raise StoreError(f"this broker no longer leads {log.topic_partition}")
            log.append_as_follower(view, clock.now_ms(), piece)
            await written(log)
    if log.log_end_offset != found.tiered_end:
        raise StoreError(
            f"{log.topic_partition} ends at {log.log_end_offset}, but its remote copy at {found.tiered_end}"
        )
    write_lost_markers(log, found.open_transactions, leader_epoch, clock.now_ms(), found.tiered_end)
    await written(log)
    rebuilding.finish(log)


logger = safe_logger(__name__)


class TieredLeaderLog:
    """Implements `tiering.writing.remote_writer.LedLog` for one leader epoch."""

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
            return None  # the high watermark of a new leader is still below the tiered end
        try:
            copied = await self._in_thread(chosen.read)
        except BadBatch as bad:
            raise BadObjectError(f"{chosen.segments[0].file.path} is damaged: {bad}") from bad
        return copied if chosen.generation == log.generation else None

    def note_tiered_end(self, offset: int) -> None:
        self._log.note_tiered(offset)

    @property
    def is_offline(self) -> bool:
        return self._partition.is_recovering

    async def follow_claim(self, claim: Claim) -> None:
        log, partition = self._log, self._partition
        _log_claim(partition, claim)
        if claim.decision is Decision.START_AT:
            await self._start_at(claim.start_at)
        elif not log.lower_tiered(claim.file.manifest.tiered_end):
            raise StoreError(
                f"{partition.topic_partition}: remote segments end at {claim.file.manifest.tiered_end}, the local log "
                f"starts at {log.local_start_offset}: the records between are lost. kafka-delete-records up to "
                f"{log.local_start_offset} accepts the loss, and copying continues"
            )
        if lost_markers(log):
            await self._end_transactions()
        self._continue(claim)

    def _continue(self, claim: Claim) -> None:
        """Bring the partition online, and advance its log start offset to that of the manifest."""
        log, partition = self._log, self._partition
        partition.recover()
        start = min(claim.log_start, log.high_watermark)
        if start > log.log_start_offset:
            log.advance_log_start(start)
            partition.log_start_moved()

    async def _start_at(self, tiered_end: int) -> None:
        """Restart the log at the tiered end, without local records."""
        log, end = self._log, self._end_at_claim
        found = await self._remote.bootstrap()
        if log.log_end_offset != end or found.tiered_end != tiered_end:
            raise StoreError(
                f"{self._partition.topic_partition} accepted records while its manifest was read"
            )
        epoch = self._partition.leader_epoch
        log.start_at(found.tiered_end, found.log_start, found.epochs, found.producers, in_background=True)
        await settled(log)
        if self._partition.leader_epoch != epoch or self._partition.is_retired:
            raise StoreError(f"this broker no longer leads {self._partition.topic_partition}")
        self._partition.begin_again()

    async def _end_transactions(self) -> None:
        """Write the lost markers of transactions open at the tiered end. Resumes after a crash between two markers."""
        found = await self._remote.bootstrap()
        epoch, now_ms = self._partition.leader_epoch, self._clock.now_ms()
        ended = write_lost_markers(self._log, found.open_transactions, epoch, now_ms)
        logger.info("%s: wrote the missing markers of %d transactions", self._log.topic_partition, ended)
        self._partition.begin_again()

    def note_log_start(self, offset: int) -> None:
        start = min(offset, self._log.high_watermark)
        if start > self._log.log_start_offset:
            self._log.advance_log_start(start)
            self._partition.log_start_moved()


def _log_claim(partition: Partition, claim: Claim) -> None:
    tp, end = partition.topic_partition, partition.log.log_end_offset
    if claim.decision is Decision.START_AT:
        logger.warning("%s ends at %d, below its tiered end: restarting at %d", tp, end, claim.start_at)
    elif claim.cut_at is not None:
        logger.error(
            "%s differs from the object store from offset %d on: the objects were moved to quarantine, "
            "until `barnabas tier quarantine %s --delete` deletes them",
            tp,
            claim.cut_at,
            partition.topic,
        )
    elif partition.is_recovering:
        logger.info("%s has all records of the object store and is online", tp)


class CompactedLeaderLog(TieredLeaderLog):
    """A compacted log. Implements `tiering.writing.whole_copier.CompactedLog`."""

    def view(self) -> LogView:
        is_lost = self._partition.is_recovering and is_lost_log(self._log)
        return super().view()._replace(is_lost=is_lost)

    async def follow_claim(self, claim: Claim) -> None:
        if claim.decision is Decision.START_AT:
            epoch = self._partition.leader_epoch
            await take_back(self._log, self._remote, epoch, self._clock, lambda: self._is_offline_in(epoch))
        else:
            _log_claim(self._partition, claim)
        self._continue(claim)

    def _is_offline_in(self, leader_epoch: int) -> bool:
        return self._partition.is_recovering and self._partition.leader_epoch == leader_epoch

    def parts(self) -> tuple[CompactedSegment, ...]:
        return whole_parts(self._log)

    async def read(self, part: CompactedSegment) -> SealedSegment | None:
        chosen = to_copy(self._log, part)
        if chosen is None:
            return None
        try:
            copied = await self._in_thread(chosen.read)
        except OSError:
            if still_exists(self._log, chosen):
                raise
            return None
        return copied if still_exists(self._log, chosen) else None


class ManifestSegments:
    """Remote segments of a log, for retention. A manifest page counts as one segment and expires as a whole."""

    def __init__(self, manifest: Callable[[], Manifest | None]) -> None:
        self._manifest = manifest

    @property
    def is_known(self) -> bool:
        return self._manifest() is not None

    @property
    def end(self) -> int:
        manifest = self._manifest()
        return manifest.tiered_end if manifest is not None else NOTHING_TIERED

    @property
    def size_bytes(self) -> int:
        manifest = self._manifest()
        return manifest.size if manifest is not None else 0

    def oldest(self) -> Iterator[RemoteSegment]:
        manifest = self._manifest()
        for part in manifest.parts if manifest is not None else ():
            yield RemoteSegment(part.base, part.end, part.size, part.largest_timestamp)
