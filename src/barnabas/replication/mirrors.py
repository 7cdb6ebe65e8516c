"""Promotion and reversal of mirrors on leaders, and high watermarks of sources.

PROMOTING: abort open transactions with ABORT markers. REVERSING: truncate the log to the promotion offset of the
new primary. Once every electable replica has the result durably, report it to the controller (SettleMirrors). Each
step is idempotent and may be repeated by this leader or the next. Offsets below the first leader epoch of the
promotion (`since_epoch`) are mirrored; markers are above.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from barnabas.cluster import Aborted, MirrorPartition
from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import Uuid
from barnabas.log import Log
from barnabas.log.tiering import write_lost_markers
from barnabas.protocol.messages.mirror import (
    AbortedTransaction,
    MirrorState,
    SettledPartition,
    SettledTopic,
    SettleMirrorsRequest,
    SettleMirrorsResponse,
)
from barnabas.replication.durability import Durability
from barnabas.replication.fetcher import BrokerIdentity
from barnabas.replication.partition import Partition

logger = safe_logger(__name__)

POLL_SECONDS = 0.05  # maximum time that a follower may take before it is checked again
RETRY_SECONDS = 0.2
AT_ONCE = 20  # partitions per slice
MAX_LISTED = 100  # transactions per partition


@dataclass(slots=True, eq=False)
class Settling:
    """A partition that this leader has prepared in one leader epoch."""

    leader_epoch: int
    promoted_at: int
    promoted_epoch: int
    end: int
    aborted: list[Aborted]
    is_durable: bool = False
    error: ErrorCode = ErrorCode.NONE


class Mirrors:
    def __init__(
        self,
        ask_controller: Callable[[SettleMirrorsRequest], Awaitable[Any]],
        identity: Callable[[], BrokerIdentity],
        clock: Clock,
        durability: Durability,
    ) -> None:
        self._ask_controller = ask_controller
        self._identity = identity
        self._clock = clock
        self._durability = durability
        self.source_ends: dict[Partition, int] = {}
        """High watermarks of sources, as last reported by mirrors to this leader."""
        self._waiting: dict[Partition, Settling | None] = {}
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def follow(self, partition: Partition) -> None:
        """Track a partition that has taken over a state, or has left this broker."""
        if partition.mirror is None:
            return
        if not partition.is_leader or partition.mirror.is_own:
            self.source_ends.pop(partition, None)
        if _must_settle(partition):
            self._waiting.setdefault(partition, None)
            self._changed.set()
            if self._task is None:
                self._task = asyncio.ensure_future(self._settle())

    def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    # -- settling -----------------------------------------------------------------------------------

    async def _settle(self) -> None:
        while self._waiting:
            try:
                await self._prepare()
                ready = {each: done for each, done in self._waiting.items() if done and _is_ready(each, done)}
                if ready:
                    await self._report_settled(ready)
            except KafkaError as error:
                logger.info("SettleMirrors failed: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:  # keep retrying, whatever the error
                logger.exception("settling mirrors failed; retrying")
                await asyncio.sleep(RETRY_SECONDS)
            await self._wait()
        self._task = None

    async def _wait(self) -> None:
        self._changed.clear()
        if self._waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._changed.wait()

    async def _prepare(self) -> None:
        """Prepare the partitions that are not prepared in this leader epoch."""
        count = 0
        for partition, done in list(self._waiting.items()):
            if not _must_settle(partition):
                self._waiting.pop(partition, None)
            elif done is None or done.leader_epoch != partition.leader_epoch or done.error:
                self._waiting[partition] = self._prepared(partition)
                count += 1
                if not count % AT_ONCE:
                    await asyncio.sleep(0)

    def _prepared(self, partition: Partition) -> Settling | None:
        try:
            settling = prepare(partition, self._clock.now_ms())
        except KafkaError as error:
            logger.error("%s cannot be settled; retrying: %s", partition.topic_partition, error)
            return None

        def safe(error: ErrorCode) -> None:
            settling.error, settling.is_durable = error, not error
            self._changed.set()

        self._durability.when(partition, settling.end, safe)
        return settling

    async def _report_settled(self, ready: dict[Partition, Settling]) -> None:
        response: SettleMirrorsResponse = await self._ask_controller(_request(self._identity(), ready))
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        # `follow` notifies us of the leader of the next epoch.
        for partition, done in ready.items():
            if self._waiting.get(partition) is done:
                del self._waiting[partition]


def _must_settle(partition: Partition) -> bool:
    mirror = partition.mirror
    return (
        mirror is not None
        and mirror.is_settling
        and partition.is_leader
        and partition.leader_epoch >= mirror.partition(partition.index).since_epoch
        and mirror.partition(partition.index).settled_epoch != partition.leader_epoch
    )


def _is_ready(partition: Partition, done: Settling) -> bool:
    is_current = done.leader_epoch == partition.leader_epoch and partition.can_commit
    return done.is_durable and is_current and partition.all_have(done.end)


def prepare(partition: Partition, now_ms: int) -> Settling:
    """Prepare the partition as its leader."""
    mirror = partition.mirror
    assert mirror is not None
    part = mirror.partition(partition.index)
    if mirror.state == MirrorState.REVERSING:
        return _reverse(partition, part)
    return _promote(partition, part, now_ms)


def _promote(partition: Partition, part: MirrorPartition, now_ms: int) -> Settling:
    log = partition.log
    promoted_at = log.epoch_end_offset(part.since_epoch - 1)[1]
    aborted = _open_transactions(log)
    if write_lost_markers(log, (), partition.leader_epoch, now_ms, log.log_end_offset):
        partition.log_has_grown(1)
    aborted = {**_ended_since(log, promoted_at), **aborted}
    for each in aborted.values():
        logger.warning(
            "%s is promoted: the transaction of producer %d from offset %d on is aborted",
            partition.topic_partition,
            each.producer_id,
            each.first_offset,
        )
    epoch = log.epochs.at(promoted_at - 1)
    end = log.log_end_offset
    return Settling(partition.leader_epoch, promoted_at, epoch, end, list(aborted.values())[:MAX_LISTED])


def _open_transactions(log: Log) -> dict[int, Aborted]:
    known = {first: log.producers.get(producer_id) for producer_id, first in log.producers.undecided.items()}
    return {
        first: Aborted(producer.producer_id, producer.epoch, first)
        for first, producer in known.items()
        if producer is not None
    }


def _ended_since(log: Log, promoted_at: int) -> dict[int, Aborted]:
    """Transactions that an earlier leader ended without reporting them."""
    end = log.log_end_offset
    found = log.aborted_transactions(promoted_at, end) if promoted_at < end else []
    producers = {producer_id: log.producers.get(producer_id) for producer_id, _ in found}
    return {
        first: Aborted(producer_id, producer.epoch if producer is not None else -1, first)
        for producer_id, first in found
        for producer in (producers[producer_id],)
    }


def _reverse(partition: Partition, part: MirrorPartition) -> Settling:
    log = partition.log
    end = min(part.promoted_at, log.log_end_offset)
    if part.promoted_epoch >= 0:
        end = min(end, log.epoch_end_offset(part.promoted_epoch)[1])
    if end < log.log_end_offset:
        logger.warning(
            "%s: cut from %d to %d, where the new primary was promoted",
            partition.topic_partition,
            log.log_end_offset,
            end,
        )
        partition.cut_mirrored(end)
    return Settling(partition.leader_epoch, log.log_end_offset, log.epochs.latest, log.log_end_offset, [])


def _request(identity: BrokerIdentity, ready: dict[Partition, Settling]) -> SettleMirrorsRequest:
    topics: dict[Uuid, SettledTopic] = {}
    for partition, done in ready.items():
        topic = topics.setdefault(
            partition.topic_id, SettledTopic(topic_id=partition.topic_id, partitions=[])
        )
        topic.partitions.append(
            SettledPartition(
                index=partition.index,
                leader_epoch=done.leader_epoch,
                promoted_at=done.promoted_at,
                promoted_epoch=done.promoted_epoch,
                end_offset=done.end,
                aborted_transactions=[
                    AbortedTransaction(each.producer_id, each.producer_epoch, each.first_offset)
                    for each in done.aborted
                ],
            )
        )
    return SettleMirrorsRequest(
        broker_id=identity.broker_id, broker_epoch=identity.broker_epoch, topics=list(topics.values())
    )
