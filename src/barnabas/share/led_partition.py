"""A share partition on its leader: the state machine of `partition`, loaded, fed from the log, and stored.

    loading --(state read)--> active --(fenced: new leader, new state epoch or new topic id)--> closed

Fetches that found nothing wait here (`Waiters`): for new records, for released records, for room in the
window, or
until the partition is closed. In Kafka all of this is SharePartition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Clock, Timer, Timers
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSlice
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.threads import ThreadBackground
from barnabas.coordination import answer_of
from barnabas.protocol.internal_topics import NO_OFFSET, SharePartitionKey
from barnabas.replication import ClusterView, ColdRead, Loaded, Partition
from barnabas.share.acknowledgements import AcknowledgedRange, ShareStateWrite
from barnabas.share.acquisition import Acquired, AcquireRequest, acquire, withdraw
from barnabas.share.batches_to_share import Batches, aborted_spans, read_batches
from barnabas.share.delays import Delays, first_offset
from barnabas.share.partition import SharePartition
from barnabas.share.persister import SharePersister
from barnabas.share.sessions import ShareWaiter, Waiters
from barnabas.share.state_shard import StateWrite
from barnabas.share.stored_state import StoredState
from barnabas.share.window import ShareSettings

logger = rate_limited_logger(__name__)

SLACK_SECONDS = 0.001  # a timer may fire slightly early, because the loop's clock is coarse

# Another leader owns the state now, or the state was deleted: the state in memory must not be used any more.
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
    # No state yet for this group and partition: its coordinator creates it when members subscribe.
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class ShareGroupConfigs(Protocol):
    """Configs of a group."""

    def value(self, group_id: str, name: str) -> Any: ...

    def milliseconds(self, group_id: str, name: str) -> int: ...


class ShareEnvironment(NamedTuple):
    """Parts of the broker shared by all share partitions. `cluster` knows whether this broker is fenced."""

    clock: Clock
    timers: Timers
    call_soon: Callable[[Callable[[], None]], object]
    threads: ThreadBackground
    image: Callable[[], MetadataImage]
    cluster: ClusterView


class SharePartitionOwner(Protocol):
    """Parts of the share partition manager that a share partition uses."""

    @property
    def persister(self) -> SharePersister: ...

    @property
    def configs(self) -> ShareGroupConfigs: ...

    def forget(self, led_partition: LedSharePartition) -> None: ...

    def forget_if_unused(self, led_partition: LedSharePartition) -> None: ...

    def write_dead_letters(self, led_partition: LedSharePartition) -> None: ...


class LedSharePartition:
    """One share group on one partition that this broker leads."""

    def __init__(
        self,
        environment: ShareEnvironment,
        owner: SharePartitionOwner,
        key: SharePartitionKey,
        partition: Partition,
    ) -> None:
        self._environment = environment
        self._clock = environment.clock
        self._owner = owner
        self._delays: Delays | None = None
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state_epoch = 0
        self.share: SharePartition | None = None
        self.error: KafkaError | None = None
        """The reason why it could not be loaded, or was closed."""
        self._configs: object = None
        self._waiters = Waiters(self._has_news, self._environment.call_soon)
        self._timer: Timer | None = None
        self._armed_for = float("inf")
        self._load()

    @property
    def is_current(self) -> bool:
        """True while this broker owns the state in memory."""
        return (
            self.error is None
            and self.partition.is_leader
            and self.partition.leader_epoch == self.leader_epoch
            and not self._environment.cluster.is_fenced
        )

    # -- loading ------------------------------------------------------------------------------------

    def _load(self) -> None:
        self._owner.persister.read(self.key, self.leader_epoch, self._read)

    def _read(self, outcome: StoredState | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            self._fail(outcome)
        elif outcome.start_offset == NO_OFFSET:
            reset = self._owner.configs.value(self.key.group_id, "share.auto.offset.reset")
            first_offset(
                self.partition,
                reset,
                self._clock.now_ms(),
                self._environment.threads,
                lambda first: self._begin(outcome, first),
            )
        else:
            self._begin(outcome, outcome.start_offset)

    def _begin(self, stored: StoredState, first: int | KafkaError) -> None:
        if isinstance(first, KafkaError):
            self._fail(first)
            return
        self.state_epoch = stored.state_epoch
        self.share = SharePartition(first, stored.batches, self.settings())
        if stored.start_offset == NO_OFFSET:
            # Otherwise the next leader, or the next member, would find another "latest" and skip the records since.
            self.share.store_start()
            self._store()
        self._write_dead_letters()
        self.wake()

    def _use_settings(self, share: SharePartition) -> None:
        """Apply the group's settings; called again when any setting has changed."""
        configs = self._environment.image().configs
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
        """Stop; waiting fetches are completed."""
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

    def watch(self, waiter: ShareWaiter) -> None:
        self._waiters.add(waiter)
        self.partition.watch(self)

    def unwatch(self, waiter: ShareWaiter) -> None:
        self._waiters.remove(waiter)

    def partition_changed(self, new_bytes: int) -> None:
        if self._waiters:
            self.partition.watch(self)
            self.wake()

    def wake(self) -> None:
        self._waiters.wake()

    def _has_news(self) -> bool:
        """True if there are records to acquire, or an error to return."""
        if not self.is_current:
            return True
        share = self.share
        return (
            share is not None
            and share.can_acquire
            and share.next_offset() < self.partition.log.high_watermark
        )

    # -- records ------------------------------------------------------------------------------------

    def find(
        self, max_bytes: int, max_records: int, *, committed_only: bool, loaded: Loaded | None
    ) -> Batches | ColdRead | None:
        """Batches from the next deliverable record on; None if there is nothing to deliver."""
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
            upper = min(upper, self._delays_known_up_to(share, upper))
        last_wanted = max(share.end, offset) + max_records
        return read_batches(self.partition, offset, max_bytes, upper, last_wanted, committed_only, loaded)

    def _delays_known_up_to(self, share: SharePartition, upper: int) -> int:
        """The offset up to which delayed records are known."""
        if self._delays is None:
            self._delays = Delays(
                self._environment.threads,
                self._clock,
                self.partition,
                share,
                lambda: self.is_current,
                self._delays_scanned,
            )
        if self._delays.scanned_to < upper:
            self._delays.scan()
        return self._delays.scanned_to

    def _delays_scanned(self) -> None:
        self.arm()
        self.wake()

    def acquire(
        self, state_write: AcquireRequest, found: Batches, *, committed_only: bool
    ) -> tuple[list[Acquired], FileSlice | None]:
        """Acquire records for a member; the bytes span from the first batch to the last that holds any of
        them.
        """
        share = self.share
        assert share is not None
        now = self._clock.monotonic()
        delays = self._delays.waiting if self._delays is not None else None
        acquired = acquire(share, state_write, found.offset, found.spans, now, delays)
        if committed_only:
            for first, last in aborted_spans(self.partition.log, found):
                acquired = withdraw(share, acquired, first, last)
        self.arm()
        if not acquired:
            return [], None
        return acquired, found.slice_of(acquired[0].first, acquired[-1].last)

    # -- acknowledgements ---------------------------------------------------------------------------

    def acknowledge(
        self, member: str, ranges: list[AcknowledgedRange], done: Callable[[KafkaError | None], None]
    ) -> None:
        if self.share is None:
            done(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        if not self.is_current:
            done(self.error or KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        try:
            self.share.acknowledge(member, ranges, self._clock.monotonic(), done)
        except KafkaError as error:
            done(error)
            return
        self._store()

    def release(self, member: str) -> None:
        if self.share is not None and self.is_current and self.share.release(member):
            self._store()
            self.wake()

    def give_back(self, member: str, ranges: Iterable[tuple[int, int]]) -> None:
        """Release records that a member acquired but was not sent, so that others can acquire them."""
        if self.share is not None and self.is_current:
            for first, last in ranges:
                self.share.give_back(member, first, last)
            self._environment.call_soon(self.wake)

    async def archive(self, first: int, last: int) -> None:
        """Archive records whose dead letters are written; return when that is stored or has failed."""

        def ask(done: Callable[[KafkaError | None], None]) -> None:
            if self.share is not None and self.share.archive(first, last, lambda error: done(None)):
                self._store()
            else:
                done(None)

        await answer_of(ask)

    # -- storing ------------------------------------------------------------------------------------

    def _store(self) -> None:
        share = self.share
        write = share.take_write() if share is not None else None
        if write is not None:
            state_write = StateWrite(
                self.state_epoch,
                self.leader_epoch,
                write.start_offset,
                write.finished_count,
                write.batches,
            )
            self._owner.persister.write(self.key, state_write, lambda outcome: self._stored(write, outcome))

    def _stored(self, write: ShareStateWrite, outcome: KafkaError | None) -> None:
        assert self.share is not None
        error = None
        if outcome is not None:
            error = KafkaError(_FOR_CLIENTS.get(outcome.code, outcome.code), outcome.message)
            logger.warning("storing the state of %s failed: %s", self.key, outcome)
        self.share.written(write, error)
        if outcome is not None and outcome.code in _FENCING:
            self._fail(outcome)
            return
        self.arm()
        self._store()
        self._write_dead_letters()
        self.wake()
        self._owner.forget_if_unused(self)

    def _write_dead_letters(self) -> None:
        if self.share is not None and self.share.has_archiving:
            self._owner.write_dead_letters(self)

    # -- timers ------------------------------------------------------------------------------------

    def arm(self) -> None:
        """Arm one timer for the first lock that expires, or the first delayed record that is due."""
        deadline = self._next_moment()
        if deadline is None or deadline >= self._armed_for or self.error is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = deadline
        delay = max(deadline - self._clock.monotonic(), 0.0)
        self._timer = self._environment.timers.call_later(delay, self._deadline_reached)

    def _next_moment(self) -> float | None:
        share = self.share
        if share is None:
            return None
        deadline, due_ms = share.next_deadline, share.next_due_ms
        if due_ms is not None:
            clock = self._clock
            due = clock.monotonic() + (due_ms - clock.now_ms()) / 1000
            deadline = due if deadline is None else min(deadline, due)
        return deadline

    def _deadline_reached(self) -> None:
        self._timer, self._armed_for = None, float("inf")
        if self.share is None or not self.is_current:
            return
        if self.share.expire(self._clock.monotonic() + SLACK_SECONDS):
            self._store()
            self.wake()
        if self.share.release_due(self._clock.now_ms()):
            self.wake()
        self.arm()
