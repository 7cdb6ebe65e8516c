"""One partition on this broker: is it the leader, who is in sync, how far is committed, who waits.

Theory of operation. The controller decides leader, leader epoch and ISR; `apply` takes its word, unless
it is older than what is known. While leading, an append moves the log end; the high watermark follows the
slowest member of the ISR. Everything that a waiting fetch or produce could be interested in ends in `_changed`,
which wakes the watchers. A watcher is told once and must come back to be told again: one that has gone
away costs a single call, not one per append.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.image import PartitionState
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.log import AppendResult, Log, Origin
from barnabas.types import TopicPartition, Uuid

if TYPE_CHECKING:
    from barnabas.metrics.topics import TopicCounters

ALL_REPLICAS = -1  # acks=all on the wire
NO_EPOCH = -1  # the client did not say which leader epoch it believes in

CommitCallback = Callable[[ErrorCode], None]


class Watcher(Protocol):
    def partition_changed(self, new_bytes: int) -> None:
        """Called once: there is something new to read, or the partition is no longer what it was."""
        ...


class Partition:
    __slots__ = (
        "_awaiting_commit",
        "_follower_ends",
        "_watchers",
        "broker_id",
        "counters",
        "index",
        "is_leader",
        "log",
        "state",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str, index: int, topic_id: Uuid, log: Log, broker_id: int, counters: TopicCounters
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.broker_id = broker_id
        self.counters = counters
        self.is_leader = False
        self.state: PartitionState | None = None
        self._follower_ends: dict[int, int] = {}
        self._watchers: dict[Watcher, None] = {}
        self._awaiting_commit: list[tuple[int, CommitCallback]] = []

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch if self.state else NO_EPOCH

    @property
    def is_only_here(self) -> bool:
        """Nothing but this machine holds what is acknowledged now."""
        return self.state is None or len(self.state.isr) <= 1

    # -- leadership ---------------------------------------------------------------------------------

    def apply(self, state: PartitionState) -> None:
        """Take over what the controller decided; what is not newer than the known state is ignored."""
        known = self.state
        if known is not None and _version(state) <= _version(known):
            return
        self.state = state
        self.is_leader = state.leader == self.broker_id
        if known is None or state.leader_epoch > known.leader_epoch:
            self._follower_ends.clear()
            if self.is_leader:
                self.log.start_epoch(state.leader_epoch)
            self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.is_leader:
            self._follow_isr()
        self._changed(0)

    def retire(self, why: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """The partition leaves this broker (topic deleted, disk failed): nobody waits for it any longer."""
        self.is_leader = False
        self._fail_waiting(why)
        self._changed(0)

    def leadership_error(self, epoch: int) -> ErrorCode:
        """Why a request that believes in `epoch` cannot be served here; NONE when it can."""
        if epoch != NO_EPOCH and epoch != self.leader_epoch:
            stale = epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if stale else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # -- writing ------------------------------------------------------------------------------------

    def append(
        self, batch: memoryview, now_ms: int, acks: int, origin: Origin = Origin.CLIENT
    ) -> AppendResult:
        """Append one batch as the leader. KafkaError says why it was refused; then nothing has changed."""
        state = self.state
        if not self.is_leader or state is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic}-{self.index}"
            )
        if acks == ALL_REPLICAS and len(state.isr) < len(state.replicas):
            self._check_min_isr(state)
        result = self.log.append_as_leader(batch, state.leader_epoch, now_ms, origin=origin)
        if not result.duplicate:
            size = len(batch)
            counters = self.counters
            counters.bytes_in.value += size
            counters.messages_in.value += result.last_offset - result.first_offset + 1
            if len(state.isr) == 1:
                self.log.advance_high_watermark(self.log.log_end_offset)
                if self._watchers:
                    self._changed(size)
        return result

    def _check_min_isr(self, state: PartitionState) -> None:
        # A topic with fewer replicas than min.insync.replicas could never be written otherwise (KIP-966).
        needed = min(self.log.config.min_insync_replicas, len(state.replicas))
        if len(state.isr) < needed:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic}-{self.index} has {len(state.isr)} replicas in sync, min.insync.replicas is {needed}",
            )

    def follower_reached(self, replica: int, end_offset: int) -> None:
        """A follower's fetch from `end_offset` tells that it holds everything below."""
        self._follower_ends[replica] = end_offset
        self._follow_isr()

    def _follow_isr(self) -> None:
        state = self.state
        assert state is not None
        ends = [self._follower_ends.get(replica, 0) for replica in state.isr if replica != self.broker_id]
        committed = min([self.log.log_end_offset, *ends])
        if committed > self.log.high_watermark:
            self.log.advance_high_watermark(committed)
            self._answer_committed()
            self._changed(1)

    # -- waiting ------------------------------------------------------------------------------------

    def when_committed(self, offset: int, callback: CommitCallback) -> None:
        """Call back once the high watermark is at least `offset`, or with the error that prevents it."""
        if self.log.high_watermark >= offset:
            callback(ErrorCode.NONE)
        else:
            self._awaiting_commit.append((offset, callback))

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def log_start_moved(self) -> None:
        self._changed(0)

    def _changed(self, new_bytes: int) -> None:
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher.partition_changed(new_bytes)

    def _answer_committed(self) -> None:
        reached = self.log.high_watermark
        waiting, self._awaiting_commit = self._awaiting_commit, []
        for offset, callback in waiting:
            if offset <= reached:
                callback(ErrorCode.NONE)
            else:
                self._awaiting_commit.append((offset, callback))

    def _fail_waiting(self, error: ErrorCode) -> None:
        waiting, self._awaiting_commit = self._awaiting_commit, []
        for _, callback in waiting:
            callback(error)


def _version(state: PartitionState) -> tuple[int, int]:
    return state.leader_epoch, state.partition_epoch
