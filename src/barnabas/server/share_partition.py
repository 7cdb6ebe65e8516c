"""A share partition on its leader: the state machine of `queues.partition`, loaded, fed from the log, and stored.

    loading --(state read)--> active --(fenced: the leader, the state or the topic is another)--> gone

Fetches that found nothing wait here (`share_waiters`), for new records, for records that come back, for room for more,
or until the partition is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.clock import Timer
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log_lines import limited_logger
from barnabas.queues.acknowledgements import Range
from barnabas.queues.acquisition import Wanted, acquire
from barnabas.queues.changes import Write
from barnabas.queues.partition import SharePartition, ShareSettings
from barnabas.queues.state_shard import StateWrite
from barnabas.queues.stored_state import NO_OFFSET, ShareKey, StoredState
from barnabas.queues.taken import Taken
from barnabas.replication.partition import Partition
from barnabas.server.share_delays import Delays
from barnabas.server.share_reading import Batches, aborted_spans, read_batches
from barnabas.server.share_reset import first_offset
from barnabas.server.share_waiters import Waiter, Waiters

if TYPE_CHECKING:
    from barnabas.log.log import FileSlice
    from barnabas.server.share_partitions import SharePartitions

logger = limited_logger(__name__)

# The state is kept for somebody else now, or for nobody: what is in memory here must not be used any more.
_FENCING = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
    }
)
_FOR_CLIENTS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    # Nobody has begun to keep state for this group and partition (yet): its coordinator does when members subscribe.
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class LedSharePartition:
    """One share group on one partition that this broker leads."""

    def __init__(self, owner: SharePartitions, key: ShareKey, partition: Partition) -> None:
        self._owner = owner
        self.broker = self._broker = owner.broker
        self._delays: Delays | None = None
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state_epoch = 0
        self.share: SharePartition | None = None
        self.error: KafkaError | None = None
        """Why it could not be loaded, or is gone."""
        self._configs: object = None
        self._waiters = Waiters(self._has_news, self._broker.call_soon)
        self._timer: Timer | None = None
        self._armed_for = float("inf")
        self._load()

    @property
    def is_current(self) -> bool:
        """Is what is in memory still ours to change?"""
        return (
            self.error is None
            and self.partition.is_leader
            and self.partition.leader_epoch == self.leader_epoch
            and not self._broker.is_fenced
        )

    # -- loading ------------------------------------------------------------------------------------

    def _load(self) -> None:
        self._owner.persister.read(self.key, self.leader_epoch, self._read)

    def _read(self, outcome: StoredState | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            self._fail(outcome)
        elif outcome.start_offset == NO_OFFSET:
            reset = self._owner.configs.value(self.key.group_id, "share.auto.offset.reset")
            first_offset(self._broker, self.partition, reset, lambda first: self._begin(outcome, first))
        else:
            self._begin(outcome, outcome.start_offset)

    def _begin(self, stored: StoredState, first: int | KafkaError) -> None:
        if isinstance(first, KafkaError):
            self._fail(first)
            return
        self.state_epoch = stored.state_epoch
        self.share = SharePartition(first, stored.batches, self.settings())
        if stored.start_offset == NO_OFFSET:
            # The next leader, or the next member, would find another "latest" and skip what has come since.
            self.share.store_start()
            self._store()
        self._see_to_dead_letters()
        self.wake()

    def _use_settings(self, share: SharePartition) -> None:
        """They may change at any time; they are read anew when anything has been set since."""
        configs = self._broker.image.configs
        if configs is not self._configs:
            self._configs = configs
            share.settings = self.settings()

    def settings(self) -> ShareSettings:
        configs, group_id = self._owner.configs, self.key.group_id
        return ShareSettings(
            max_locks=configs.value(group_id, "share.partition.max.record.locks"),
            delivery_limit=configs.value(group_id, "share.delivery.count.limit"),
            lock_seconds=configs.value(group_id, "share.record.lock.duration.ms") / 1000,
            renewable=configs.value(group_id, "share.renew.acknowledge.enable"),
            dead_letters=bool(configs.value(group_id, "errors.deadletterqueue.topic.name")),
        )

    def _fail(self, error: KafkaError) -> None:
        self.error = KafkaError(_FOR_CLIENTS.get(error.code, error.code), error.message)
        self._owner.forget(self)
        self.close()

    def close(self) -> None:
        """Nothing more is done here; whoever waits finds out."""
        if self.error is None:
            self.error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._delays is not None:
            self._delays.stop()
        if self.share is not None:
            self.share.give_up(self.error)
        self.partition.unwatch(self)
        self.wake()

    # -- waiting ------------------------------------------------------------------------------------

    def watch(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)
        self.partition.watch(self)

    def unwatch(self, waiter: Waiter) -> None:
        self._waiters.remove(waiter)

    def partition_changed(self, new_bytes: int) -> None:
        if self._waiters:
            self.partition.watch(self)
            self.wake()

    def wake(self) -> None:
        self._waiters.wake()

    def _has_news(self) -> bool:
        """Is there something to take, or to say?"""
        if not self.is_current:
            return True
        share = self.share
        return (
            share is not None
            and share.can_acquire
            and share.next_offset() < self.partition.log.high_watermark
        )

    # -- records ------------------------------------------------------------------------------------

    def find(self, max_bytes: int, max_records: int, *, committed_only: bool) -> Batches | None:
        """What the log has from the next deliverable record on; None when there is nothing to deliver."""
        share = self.share
        if share is None:
            return None
        log = self.partition.log
        self._use_settings(share)
        share.log_start_moved(log.log_start_offset)
        if not share.can_acquire:
            return None
        offset = share.next_offset()
        upper = log.last_stable_offset if committed_only else log.high_watermark
        if not share.room:
            upper = min(upper, share.end + 1)
        if log.config.barnabas_delay_enable:
            upper = min(upper, self._looked_at(share, upper))
        return read_batches(log, offset, max_bytes, upper, max(share.end, offset) + max_records)

    def _looked_at(self, share: SharePartition, upper: int) -> int:
        """Up to where it is known which records must wait."""
        if self._delays is None:
            self._delays = Delays(self, share)
        if self._delays.scanned_to < upper:
            self._delays.scan()
        return self._delays.scanned_to

    def take(
        self, wanted: Wanted, found: Batches, *, committed_only: bool
    ) -> tuple[list[Taken], FileSlice | None]:
        """Acquire records for a member; the bytes go from the first batch to the last that has any of them."""
        share = self.share
        assert share is not None
        now = self._broker.clock.monotonic()
        delays = self._delays.waiting if self._delays is not None else None
        taken = acquire(share, wanted, found.offset, found.spans, now, delays)
        if committed_only:
            for first, last in aborted_spans(self.partition.log, found):
                taken = share.withdraw(taken, first, last)
        self.arm()
        if not taken:
            return [], None
        return taken, found.slice_of(taken[0].first, taken[-1].last)

    # -- what members say ---------------------------------------------------------------------------

    def acknowledge(
        self, member: str, ranges: list[Range], done: Callable[[KafkaError | None], None]
    ) -> None:
        if self.share is None:
            done(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        if not self.is_current:
            done(self.error or KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        try:
            self.share.acknowledge(member, ranges, self._broker.clock.monotonic(), done)
        except KafkaError as error:
            done(error)
            return
        self._store()

    def release(self, member: str) -> None:
        if self.share is not None and self.is_current and self.share.release(member):
            self._store()
            self.wake()

    async def buried(self, first: int, last: int) -> None:
        """Dead letters are where they belong: archive their records, and wait until that is stored."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: KafkaError | None) -> None:
            if not stored.done():
                stored.set_result(None)

        if self.share is not None and self.share.buried(first, last, done):
            self._store()
            await stored

    # -- storing ------------------------------------------------------------------------------------

    def _store(self) -> None:
        share = self.share
        write = share.take_write() if share is not None else None
        if write is not None:
            wanted = StateWrite(
                self.state_epoch,
                self.leader_epoch,
                write.start_offset,
                write.finished_count,
                write.batches,
            )
            self._owner.persister.write(self.key, wanted, lambda outcome: self._stored(write, outcome))

    def _stored(self, write: Write, outcome: KafkaError | None) -> None:
        assert self.share is not None
        error = None
        if outcome is not None:
            error = KafkaError(_FOR_CLIENTS.get(outcome.code, outcome.code), outcome.message)
            logger.warning("the state of %s cannot be stored: %s", self.key, outcome)
        self.share.written(write, error)
        if outcome is not None and outcome.code in _FENCING:
            self._fail(outcome)
            return
        self.arm()
        self._store()
        self._see_to_dead_letters()
        self.wake()
        self._owner.forget_if_unused(self)

    def _see_to_dead_letters(self) -> None:
        if self.share is not None and self.share.has_dying:
            self._owner.dead_letters.bury(self)

    # -- by the clock -------------------------------------------------------------------------------

    def arm(self) -> None:
        """One timer for the first lock that runs out, or the first record whose time comes."""
        deadline = self._next_moment()
        if deadline is None or deadline >= self._armed_for or self.error is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = deadline
        delay = max(deadline - self._broker.clock.monotonic(), 0.0)
        self._timer = self._broker.timers.call_later(delay, self._look)

    def _next_moment(self) -> float | None:
        share = self.share
        if share is None:
            return None
        moment, due_ms = share.next_deadline, share.next_due_ms
        if due_ms is not None:
            clock = self._broker.clock
            due = clock.monotonic() + (due_ms - clock.now_ms()) / 1000
            moment = due if moment is None else min(moment, due)
        return moment

    def _look(self) -> None:
        self._timer, self._armed_for = None, float("inf")
        if self.share is None or not self.is_current:
            return
        if self.share.expire(self._broker.clock.monotonic() + SLACK_SECONDS):
            self._store()
            self.wake()
        if self.share.release_due(self._broker.clock.now_ms()):
            self.wake()
        self.arm()


SLACK_SECONDS = 0.001  # the loop's clock is coarse: a timer may fire a little early
