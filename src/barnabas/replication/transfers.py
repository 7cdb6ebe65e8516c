"""Transfers of partitions between the processes of a node, which share its log dirs.

The log of a partition is opened only by the process that holds the partition. The image says which process should:

    absent --wanted--> REQUESTED --granted--> OPENING --recovered--> OPEN
    OPEN --handed over, deleted--> CLOSING --released--> absent

Each step compares again with the image, which may have changed meanwhile: a hold that is granted too late is given
back, and a partition that is wanted again after its release is requested again. `replication/manager` asks `may_open`
before it opens or creates a log, and retries when `on_open` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from barnabas.cluster import Hold, Holds, HoldService, is_on_node
from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.topic import LogConfig
from barnabas.log import DiskFull, Log
from barnabas.log.dirs import Expected, LogDir, LogManager

RETRY_SECONDS = 0.05  # while a move to another log dir is between its steps
DISK_FULL_SECONDS = 1.0
PREPARE_SECONDS = (
    1.0  # to wait for the holds of new partitions, which are free unless their names were used before
)

logger = safe_logger(__name__)


class FlushHolds(Protocol):
    def hold(self, log: Log, ready: Callable[[], None]) -> None: ...
    def release(self, log: Log) -> None: ...


class TransferState(Enum):
    REQUESTED = "requested"
    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"


@dataclass(slots=True)
class _CheckpointWrites:
    """Requests to write the checkpoints of a log dir: their number, and how many are done."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    requested: int = 0
    done: int = 0


class PartitionTransfers:
    def __init__(
        self,
        broker_id: int,
        holds: HoldService,
        logs: LogManager,
        flusher: FlushHolds,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
        *,
        image: Callable[[], MetadataImage],
        config: Callable[[str], LogConfig],
        compaction_ended: Callable[[Log], Awaitable[None]],
        on_open: Callable[[TopicPartition], None],
    ) -> None:
        self._broker_id = broker_id
        self._holds = holds
        self._logs = logs
        self._flusher = flusher
        self._in_thread = in_thread
        self._image = image
        self._config = config
        self._compaction_ended = compaction_ended
        self._on_open = on_open
        self._states: dict[TopicPartition, TransferState] = {}
        self._wanted: list[TopicPartition] = []
        self._topic_ids: dict[TopicPartition, Uuid] = {}
        """Of partitions that are wanted, by the image at that time."""
        self._granted_holds: Holds = {}
        """To be opened next, together."""
        self._is_opening = False
        self._writes: dict[LogDir, _CheckpointWrites] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._is_stopping = False
        holds.on_granted = self._granted

    def __len__(self) -> int:
        """Number of partitions that are neither open nor closed."""
        return sum(state is not TransferState.OPEN for state in self._states.values())

    # -- at the start -------------------------------------------------------------------------------

    async def take(self, partitions: Collection[TopicPartition]) -> Holds:
        """Request the holds of partitions that are loaded next; return those that are granted now."""
        self._states |= dict.fromkeys(partitions, TransferState.REQUESTED)
        granted = await self._holds.request(partitions)
        self._states |= dict.fromkeys(granted, TransferState.OPEN)
        return granted

    def expected(self, holds: Holds) -> Expected:
        """The config of a log on disk that this process holds; None if its topic was deleted.

        The id of the hold decides, not the image of this process, which may be older or newer: by it, a partition that
        another process is to serve would look like a stray.
        """

        def config_of(tp: TopicPartition, topic_id: Uuid | None) -> LogConfig | None:
            known = holds[tp].topic_id if tp in holds else None
            is_current = known is not None and topic_id in (known, None)
            return self._config(tp.topic) if is_current else None

        return config_of

    def loaded(self, taken: Collection[TopicPartition], is_ours: Callable[[TopicPartition], bool]) -> None:
        """Give back what was loaded and is for another process, and what turned out to be a stray."""
        unused = []
        for each in taken:
            if self._logs.get(each) is None and each not in self._logs.damaged and not self._is_ours(each):
                unused.append(each)
                del self._states[each]
            elif not is_ours(each):
                self.hand_over(each)
        self._holds.release(unused, are_closed=False)

    # -- of the replica manager ---------------------------------------------------------------------

    def may_open(self, tp: TopicPartition) -> bool:
        """True if the log may be opened or created now. Otherwise `on_open` follows."""
        state = self._states.get(tp)
        if state is TransferState.OPEN:
            return True
        if state is None:
            self._want([tp])
        return False

    async def prepare(self, partitions: Collection[TopicPartition]) -> None:
        """Wait for a short time until new partitions may be created."""
        self._want([each for each in partitions if each not in self._states])
        coming = {TransferState.REQUESTED, TransferState.OPENING}
        with suppress(TimeoutError):
            async with asyncio.timeout(PREPARE_SECONDS):
                while any(self._states.get(each) in coming for each in partitions):
                    self._changed.clear()
                    await self._changed.wait()

    def stays_on_node(self, state: PartitionState) -> bool:
        """True if another process of this node has the partition now: its log is closed, not deleted."""
        image = self._image()
        own = image.brokers.get(self._broker_id)
        return own is not None and own.node >= 0 and is_on_node(image, state, own.node)

    def hand_over(self, tp: TopicPartition) -> None:
        """Close the log, which nothing uses any more, and release the partition."""
        if self._states.get(tp) is TransferState.OPEN and not self._is_stopping:
            self._states[tp] = TransferState.CLOSING
            self._run(self._close(tp))

    def deleted(self, tp: TopicPartition, log: Log | None) -> None:
        """Release a partition whose files were removed, once no checkpoint has it any more."""
        if self._states.get(tp) is TransferState.OPEN and not self._is_stopping:
            self._states[tp] = TransferState.CLOSING
            self._run(self._end_deletion(tp, log))

    async def stop(self) -> None:
        """Begin nothing, and wait for what has begun."""
        self._is_stopping = True
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def abort(self) -> None:
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()

    # -- opening ------------------------------------------------------------------------------------

    def _want(self, partitions: list[TopicPartition]) -> None:
        if not partitions or self._is_stopping:
            return
        self._states |= dict.fromkeys(partitions, TransferState.REQUESTED)
        topics = self._image().topics
        self._topic_ids |= {each: topics[each.topic].topic_id for each in partitions if each.topic in topics}
        self._wanted += partitions
        if len(self._wanted) == len(partitions):
            self._run(self._request())

    async def _request(self) -> None:
        """Request all holds that were wanted in this step of the event loop."""
        await asyncio.sleep(0)
        requested, self._wanted = self._wanted, []
        self._granted(await self._holds.request(requested))

    def _granted(self, holds: Holds) -> None:
        if self._is_stopping:
            return  # the hub frees them at the end of this process
        unwanted = [each for each in holds if not self._is_awaited(each)]
        for each in unwanted:
            if self._states.get(each) is TransferState.REQUESTED:
                del self._states[each]
        if unwanted:
            self._holds.release(unwanted, are_closed=False)
        opening = {each: hold for each, hold in holds.items() if each not in unwanted}
        if opening:
            self._states |= dict.fromkeys(opening, TransferState.OPENING)
            self._granted_holds |= opening
            if not self._is_opening:
                self._is_opening = True
                self._run(self._open_granted())

    def _is_awaited(self, tp: TopicPartition) -> bool:
        """True if the log is to be served here, or to be deleted: it was ours when its topic was deleted."""
        is_wanted = self._is_ours(tp) or self._image().partition(*tp) is None
        return self._states.get(tp) is TransferState.REQUESTED and is_wanted

    def _is_ours(self, tp: TopicPartition) -> bool:
        state = self._image().partition(tp.topic, tp.partition)
        return state is not None and self._broker_id in state.replicas

    async def _open_granted(self) -> None:
        """Open one batch after the other: each reads the checkpoints of all partitions."""
        try:
            while self._granted_holds:
                holds, self._granted_holds = self._granted_holds, {}
                await self._open(holds)
        finally:
            self._is_opening = False

    async def _open(self, holds: Holds) -> None:
        stops = {each: hold.stop for each, hold in holds.items()}
        known = {tp: Hold(hold.stop, hold.topic_id or self._topic_ids.get(tp)) for tp, hold in holds.items()}
        try:
            loader = await self._in_thread(self._logs.handover.opening(stops, self.expected(known)))
        except (OSError, KafkaError) as error:
            # They stay held, so that no other process opens them, and offline until the next start.
            logger.error("cannot open %d partitions: %s", len(holds), error)
            return
        self._logs.handover.end_opening(loader, stops)
        for each in holds:
            self._states[each] = TransferState.OPEN
            if self._is_outdated(each):
                self._delete(each)
            elif self._is_ours(each):
                self._on_open(each)
            else:
                self.hand_over(each)
        self._changed.set()

    def _is_outdated(self, tp: TopicPartition) -> bool:
        """True if the log belongs to a topic that was deleted after the partition was wanted: the image has had its id,
        and has it no more. A log of an id that the image has never had may be newer."""
        log, wanted_id = self._logs.get(tp), self._topic_ids.pop(tp, None)
        topic = self._image().topics.get(tp.topic)
        is_known = topic is not None and topic.topic_id == wanted_id
        return log is not None and log.topic_id == wanted_id and not is_known

    def _delete(self, tp: TopicPartition) -> None:
        log = self._logs.get(tp)
        try:
            self._logs.delete(tp)
        except KafkaError as error:
            logger.error("cannot remove the files of %s: %s", tp, error)
        self.deleted(tp, log)

    # -- closing ------------------------------------------------------------------------------------

    async def _close(self, tp: TopicPartition) -> None:
        while not self._logs.handover.is_movable(tp):
            if self._is_stopping:
                return
            await asyncio.sleep(RETRY_SECONDS)
        log = self._logs.get(tp)
        if log is not None:
            await self._wait_until_idle(log)
            try:
                await self._close_log(log)
            except (OSError, KafkaError) as error:
                logger.error("%s cannot be closed, and no other process opens it: %s", tp, error)
                if isinstance(error, OSError):
                    self._logs.take_offline(log, error)
                return
            finally:
                self._flusher.release(log)
        self._released(tp, are_closed=log is not None)

    async def _close_log(self, log: Log) -> None:
        while True:
            try:
                closing = self._logs.handover.begin_closing(log.topic_partition)
                break
            except DiskFull:  # nothing has changed
                await asyncio.sleep(DISK_FULL_SECONDS)
        if closing is not None:
            await self._in_thread(closing.job.run)
            for log_dir in self._logs.handover.end_closing([closing]):
                await self._write_checkpoints(log_dir)

    async def _write_checkpoints(self, log_dir: LogDir) -> None:
        """Write the checkpoints, when there is room for them: until then, no other process may open the partitions.

        Partitions that are closed while a write runs share the next one.
        """
        writes = self._writes.setdefault(log_dir, _CheckpointWrites())
        writes.requested += 1
        number = writes.requested
        async with writes.lock:
            while writes.done < number:
                covered = writes.requested
                try:
                    await self._in_thread(self._logs.checkpoint_step(log_dir))
                    writes.done = covered
                except DiskFull as error:
                    logger.warning("cannot write a checkpoint, will retry: %s", error)
                    await asyncio.sleep(DISK_FULL_SECONDS)

    async def _end_deletion(self, tp: TopicPartition, log: Log | None) -> None:
        if log is not None:
            await self._wait_until_idle(log)
            self._flusher.release(log)
        for log_dir in self._logs.dirs:
            if tp in log_dir.unwritten_deletions and log_dir.disk.error is None:
                try:
                    await self._write_checkpoints(log_dir)
                except KafkaError as error:
                    logger.error("the deletion of %s cannot be noted: %s", tp, error)
                    return
        self._released(tp, are_closed=False)

    async def _wait_until_idle(self, log: Log) -> None:
        """Wait until neither a flush nor a compaction writes files of the log; both stay away until `release`."""
        quiet = asyncio.get_running_loop().create_future()
        self._flusher.hold(log, lambda: None if quiet.done() else quiet.set_result(None))
        await quiet
        await self._compaction_ended(log)

    def _released(self, tp: TopicPartition, *, are_closed: bool) -> None:
        del self._states[tp]
        self._logs.handover.released(tp)
        self._holds.release([tp], are_closed=are_closed)
        if self._is_ours(tp):
            self._want([tp])

    def _run(self, steps: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(steps)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a transfer has failed", exc_info=error)
