"""Restored partitions (`barnabas.remote.origin`): their empty logs are initialized from the object store.

    tiered topic           an empty log at the tiered end, plus end markers of transactions open there
    compacted topic        all records of the remote copy
    __consumer_offsets     the committed offsets of the last snapshot

The partition has no leader until this is done: a record at offset 0 would fork the log. The broker therefore calls
`may_lead` first. Every step may be interrupted; the log alone shows if work is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from barnabas.broker.tiering.no_tiering import awaits_store, unfinished
from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.common.clock import Clock
from barnabas.common.cooperative import pieces
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, Uuid, uuid_from_text
from barnabas.coordination import CoordinatorRecord
from barnabas.groups import Committed, offset_record
from barnabas.log import Log, LogDirError, Origin, ReplaceableLog
from barnabas.log.tiering import stays_whole, write_lost_markers
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.records import build_batch_at
from barnabas.replication import Partition
from barnabas.tiering.reading import Bootstrap
from barnabas.tiering.restoring import SavedGroupOffset, SavedGroupState
from barnabas.tiering.stores import StoreError
from barnabas.tiering.writing import StoreBackoff

RECORDS_IN_BATCH = 1000
WRITE_PAUSE = 0.02  # seconds between checks for pending writes
MAX_WAIT_SECONDS = 10.0

logger = safe_logger(__name__)


class RestoredPartitions:
    """Initializes restored partitions. Not thread-safe: used on the event loop only."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        clock: Clock,
        bootstrap: Callable[[Partition], Awaitable[Bootstrap]],
        take_back: Callable[[Partition, int, Callable[[], bool]], Awaitable[None]],
        group_state: Callable[[int], Awaitable[SavedGroupState | None]],
        begun: Callable[[Partition], None],
    ) -> None:
        self._image = image
        self._clock = clock
        self._bootstrap = bootstrap
        self._take_back = take_back
        self._group_state = group_state
        self._begun = begun
        self._in_progress: dict[TopicPartition, asyncio.Task[None]] = {}
        self._empty: dict[TopicPartition, Log] = {}
        """Logs still empty after initialization: the store has no records, or the leader recovers them later."""

    def may_lead(self, partition: Partition, state: PartitionState) -> bool:
        tp, log = partition.topic_partition, partition.log
        if not awaits_store(self._image(), partition) or self._empty.get(tp) is log:
            return True
        if tp not in self._in_progress:
            task = self._in_progress[tp] = asyncio.create_task(self._begin(partition, state))
            task.add_done_callback(lambda _: self._in_progress.pop(tp, None))
        return False

    async def _begin(self, partition: Partition, state: PartitionState) -> None:
        """Retry until it succeeds, or until the leader epoch changes."""
        begin = self._with_offsets if partition.topic == CONSUMER_OFFSETS else self._at_tiered_end
        backoff = StoreBackoff()
        while self._is_ours(partition, state):
            try:
                await begin(partition, state)
            except LogDirError as error:
                logger.error("cannot initialize %s: %s", partition.topic_partition, error)
                return
            except KafkaError as error:
                logger.warning(
                    "cannot initialize %s yet, so it has no leader: %s", partition.topic_partition, error
                )
                await asyncio.sleep(min(backoff.after(error), MAX_WAIT_SECONDS))
            else:
                if awaits_store(self._image(), partition):
                    self._empty[partition.topic_partition] = partition.log
                self._begun(partition)
                return

    def _is_ours(self, partition: Partition, state: PartitionState) -> bool:
        now = self._image().partition(partition.topic, partition.index)
        return now is not None and now.leader_epoch == state.leader_epoch and not partition.is_retired

    async def _at_tiered_end(self, partition: Partition, state: PartitionState) -> None:
        found = await self._bootstrap(partition)
        log = partition.log
        if not self._is_ours(partition, state):
            return
        if found.epochs and found.epochs[-1][0] >= state.leader_epoch:
            raise StoreError(
                f"its records have leader epoch {found.epochs[-1][0]}, but the current one is {state.leader_epoch}"
            )
        if stays_whole(log):
            if found.tiered_end:
                await self._take_back(partition, state.leader_epoch, lambda: self._is_ours(partition, state))
            return
        if log.log_end_offset == 0 and found.tiered_end:
            log.start_at(found.tiered_end, found.log_start, found.epochs, found.producers, in_background=True)
            await settled(log)
            if not self._is_ours(partition, state):
                return
        ended = write_lost_markers(log, found.open_transactions, state.leader_epoch, self._clock.now_ms())
        logger.info(
            "%s starts at offset %d, with markers for %d open transactions; earlier records are in the object store",
            partition.topic_partition,
            found.tiered_end,
            ended,
        )

    async def _with_offsets(self, partition: Partition, state: PartitionState) -> None:
        remembered = await self._group_state(partition.index)
        if remembered is not None and remembered.offsets and self._is_ours(partition, state):
            await write_offsets(partition.log, remembered.offsets, state.leader_epoch, self._clock.now_ms())
            logger.info(
                "restored %s with %d committed offsets", partition.topic_partition, len(remembered.offsets)
            )

    async def stop(self) -> None:
        tasks = list(self._in_progress.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class MissingLogs:
    """Checks if the object store covers a partition whose folder is missing although the log dir lists records of it.

    The check is retried until the store answers. If records are missing from the store, the partition stays offline:
    an ineligible replica or a backup of the folder may have them.
    """

    def __init__(
        self,
        tiered_end: Callable[[TopicPartition, Uuid], Awaitable[int]],
        settle: Callable[[TopicPartition], None],
    ) -> None:
        self._tiered_end = tiered_end
        self._settle = settle
        self._known: dict[tuple[TopicPartition, Uuid], int] = {}
        self._asking: dict[tuple[TopicPartition, Uuid], asyncio.Task[None]] = {}

    def store_covers(self, tp: TopicPartition, topic_id: Uuid, end: int) -> bool | None:
        """True if the store has all offsets below `end`; None if not known yet (`settle` is called later)."""
        key = tp, topic_id
        known = self._known.get(key)
        if known is not None:
            return known >= end
        if key not in self._asking:
            task = self._asking[key] = asyncio.create_task(self._ask(tp, topic_id, end))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return None

    async def _ask(self, tp: TopicPartition, topic_id: Uuid, end: int) -> None:
        backoff = StoreBackoff()
        while (tp, topic_id) not in self._known:
            try:
                found = self._known[tp, topic_id] = await self._tiered_end(tp, topic_id)
            except KafkaError as error:
                logger.warning("the folder of %s is missing, and its manifest cannot be read: %s", tp, error)
                await asyncio.sleep(min(backoff.after(error), MAX_WAIT_SECONDS))
        if found < end:
            logger.error(
                "the folder of %s is missing: it had offsets up to %d, the object store up to %d",
                tp,
                end,
                found,
            )
        self._settle(tp)

    async def stop(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def settled(log: ReplaceableLog) -> None:
    """Wait until a replacement of the log's files is complete or cancelled."""
    if not log.is_settled:
        done = asyncio.Event()
        log.when_settled(done.set)
        await done.wait()


async def written(log: Log) -> None:
    """Wait for pending writes of a slow disk. Raises StoreError if the disk is full: later batches would leave a
    gap."""
    end = log.log_end_offset
    await asyncio.sleep(0)
    while log.has_pending:  # noqa: ASYNC110 - the log has no event
        await asyncio.sleep(WRITE_PAUSE)
    if log.log_end_offset != end:
        raise StoreError(f"cannot write {log.topic_partition} up to offset {end}")


async def write_offsets(
    log: Log, offsets: Iterable[SavedGroupOffset], leader_epoch: int, now_ms: int
) -> None:
    """Write all offsets, or none: an interrupted attempt is repeated from the start."""
    fs, mark = log.fs, unfinished(log)
    if log.log_end_offset:
        log.truncate_fully_and_start_at(0)
    fs.write_atomic(mark, b"")
    for some in pieces(list(offsets), RECORDS_IN_BATCH):
        records = [_record(each) for each in some]
        batch = memoryview(build_batch_at(now_ms, records))
        log.append_as_leader(batch, leader_epoch, now_ms, Origin.COORDINATOR)
        await written(log)
    log.flush()
    fs.remove(mark)
    fs.sync_folder(log.folder)


def _record(each: SavedGroupOffset) -> CoordinatorRecord:
    committed = Committed(
        each.offset,
        each.leader_epoch,
        each.metadata,
        each.commit_ms,
        each.expire_ms,
        uuid_from_text(each.topic_id),
    )
    tp = TopicPartition(each.topic, each.partition)
    return offset_record(each.group, tp, committed, lambda offset, producer: None)
