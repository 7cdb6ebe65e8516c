"""Moves replicas between the log dirs of this broker (AlterReplicaLogDirs); log/dirs/move.py has the rules.

One task per move; as many copy concurrently as there are log dirs. A thread reads, the loop appends in pieces, as a
follower does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSlice
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.threads import ThreadBackground
from barnabas.common.types import TopicPartition
from barnabas.log import DiskFull, Log
from barnabas.log.dirs import LogDirMove, LogManager, MoveState
from barnabas.records.batch import iterate_headers
from barnabas.replication.cold_reads import ColdRead, ColdReads, is_cold
from barnabas.replication.flusher import Flusher
from barnabas.replication.follower import pieces, size_of
from barnabas.replication.manager import ReplicaManager
from barnabas.replication.throttle import ReplicationQuota

READ_BYTES = 1 << 20
FLUSHED_EVERY = 64 << 20
"""A copy is synced while it grows, so that little is left to sync while producers wait."""
LAST_BYTES = 256 << 10
"""Bytes that may be copied within one turn of the loop when the copy takes over."""
ATTEMPTS = 3  # attempts to take over while the log is written to; then producers continue for a while
PAUSE_SECONDS = 0.1  # between two checks of an exceeded throttle, or of a full disk

logger = rate_limited_logger(__name__)


class _MoveCancelled(Exception):  # noqa: N818 - ends a task, not an error
    """The move was cancelled while waiting."""


class ReplicaMoves:
    def __init__(
        self,
        logs: LogManager,
        replicas: ReplicaManager,
        flusher: Flusher,
        cold_reads: ColdReads,
        threads: ThreadBackground,
        clock: Clock,
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._flusher = flusher
        self._cold_reads = cold_reads
        self._in_thread = threads.call
        self._clock = clock
        self._tasks: dict[LogDirMove, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(len(logs.dirs))
        self.throttle = ReplicationQuota(clock.monotonic)

    def start(self) -> None:
        """Resume the moves in progress when the broker stopped."""
        for move in self._logs.moves:
            self._run(move)

    async def stop(self) -> None:
        """Stop all moves; unfinished ones resume at the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def move(self, partition: TopicPartition, path: str) -> None:
        """Start moving the replica to a log dir, or cancel its move if it is there; KafkaError if it cannot move."""
        target = self._logs.placement.dir_named(path)
        if partition in self._replicas.offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} is offline")
        log = self._logs.get(partition)
        if log is None:
            self._logs.placement.prefer(partition, target)
            raise KafkaError(
                ErrorCode.REPLICA_NOT_AVAILABLE,
                f"{partition} does not exist here yet; it will be created in {path}",
            )
        known = self._logs.moves.get(partition)
        if known is not None and known.state is MoveState.SETTLING:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{partition} has just moved: retry")
        if known is not None and known.target is not target:
            self._logs.moves.drop(partition)
        if self._logs.dir_of(partition) is target or self._logs.moves.get(partition) is not None:
            return
        if self._logs.offline_dirs:
            # Another copy may be in the offline log dir.
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                "replicas cannot move while a log dir is offline: repair it first",
            )
        self._run(self._logs.moves.begin(log, target))

    def _run(self, move: LogDirMove) -> None:
        task = self._tasks[move] = asyncio.ensure_future(self._carry_out(move))
        task.add_done_callback(lambda task: self._tasks.pop(move, None))

    # -- one move -----------------------------------------------------------------------------------

    async def _carry_out(self, move: LogDirMove) -> None:
        try:
            async with self._room:
                await self._copy(move)
            await self._settle(move)
            logger.info("%s has moved from %s to %s", move.partition, move.source.folder, move.target.folder)
        except _MoveCancelled:
            logger.info("%s: move to %s cancelled", move.partition, move.target.folder)
        except (KafkaError, OSError) as error:
            logger.error(
                "%s could not be moved to %s: %s. It stays where it was; ask for the move again.",
                move.partition,
                move.target.folder,
                error,
            )
            self._give_up(move)

    def _give_up(self, move: LogDirMove) -> None:
        if move.source.disk.error is not None:
            self._logs.moves.lost(move.source)
        elif move.state is MoveState.COPYING:
            self._logs.moves.drop(move.partition)
        else:
            self._logs.moves.end(move)  # its note is kept: the next start removes the rest in the old dir

    async def _copy(self, move: LogDirMove) -> None:
        while move.state is MoveState.COPYING:
            await self._catch_up(move, throttled=True)
            await self._flush(move)
            await self._try_to_take_over(move)

    async def _catch_up(self, move: LogDirMove, *, throttled: bool) -> None:
        unflushed = 0
        while self._check(move) and move.lag:
            is_held_back = throttled and self.throttle.is_exceeded
            taken = 0 if is_held_back else await self._copy_some(move)
            if not taken:
                await asyncio.sleep(PAUSE_SECONDS)
            self.throttle.take(taken)
            unflushed += taken
            if unflushed >= FLUSHED_EVERY:
                await self._flush(move)
                unflushed = 0

    async def _copy_some(self, move: LogDirMove) -> int:
        """Copy one read; returns its size."""
        move.align()
        log, start, generation = move.log, move.future.log_end_offset, move.log.generation
        batches = memoryview(await self._read(log, start))
        taken, end = 0, start
        for piece in pieces(list(iterate_headers(batches))):
            self._check(move)
            if log.generation != generation:
                break  # it was truncated meanwhile: the records just read may no longer exist
            if move.future.log_end_offset != end:
                break  # a slow disk had no room for the batches before: they are copied again first
            try:
                move.take(batches, self._clock.now_ms(), piece)
            except DiskFull as full:
                logger.warning("%s: move is waiting: %s", move.partition, full)
                break
            end = move.future.log_end_offset
            taken += size_of(piece)
            await asyncio.sleep(0)
        return taken

    async def _read(self, log: Log, offset: int) -> bytes:
        if offset >= log.local_start_offset and is_cold(log, offset):
            loaded = asyncio.Event()
            self._cold_reads.load([ColdRead(log, offset, READ_BYTES)], loaded.set)
            await loaded.wait()
        if not log.local_start_offset <= offset <= log.log_end_offset:
            return b""
        found = log.read(offset, READ_BYTES, log.log_end_offset)
        return await self._in_thread(found.read) if isinstance(found, FileSlice) else found

    async def _flush(self, move: LogDirMove) -> None:
        future = self._check(move).future
        job = future.prepare_flush()
        await self._in_thread(job.run)
        future.complete_flush(job)

    def _check(self, move: LogDirMove) -> LogDirMove:
        """Raise if the move has ended or failed meanwhile."""
        if move.state is MoveState.OVER:
            raise _MoveCancelled
        failure = move.failure or move.source.disk.error
        if failure is not None:
            raise failure
        return move

    # -- the copy takes over ------------------------------------------------------------------------

    async def _try_to_take_over(self, move: LogDirMove) -> None:
        async with self._no_flushes(move.log):
            for _ in range(ATTEMPTS):
                await self._catch_up(move, throttled=False)
                await self._flush(move)
                await self._in_thread(self._logs.moves.leave_note(self._check(move)))
                self._copy_the_rest(self._check(move))
                if move.may_take_over:
                    self._logs.moves.change(move)
                    return

    @asynccontextmanager
    async def _no_flushes(self, log: Log) -> AsyncIterator[None]:
        """Suspend flushes of the log, so that the copy can catch up with its flushed offset."""
        idle = asyncio.Event()
        self._flusher.hold(log, idle.set)
        try:
            await idle.wait()
            yield
        finally:
            self._flusher.release(log)

    def _copy_the_rest(self, move: LogDirMove) -> None:
        move.align()
        if not move.future.is_settled:
            return
        found = move.log.read(move.future.log_end_offset, LAST_BYTES, move.log.log_end_offset)
        batches = found.read() if isinstance(found, FileSlice) else found
        move.take(memoryview(batches), self._clock.now_ms())

    async def _settle(self, move: LogDirMove) -> None:
        moves = self._logs.moves
        await self._in_thread(lambda: moves.sync_target(move))
        moves.retire_source(self._check(move))
        await self._in_thread(lambda: moves.remove_note(move))
        moves.end(move)
