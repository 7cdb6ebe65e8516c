"""One partition on this broker: is it the leader, who is in sync, how far is committed, who waits.

Theory of operation. The controller decides leader, leader epoch and ISR; `apply` takes its word, unless
it is older than what is known. While leading, an append moves the log end; the high watermark follows the
slowest member of the *maximal* ISR: the committed one and whoever we have asked the controller to add. A member
counts as gone only once the controller has said so. And it moves only while the committed ISR is as large as
min.insync.replicas asks: so whoever leaves the ISR then still has all that was committed (KIP-966).

Everything that a waiting fetch or produce could be interested in ends in `_changed`, which wakes the watchers. A
watcher is told once and must come back to be told again: one that has gone away costs a single call, not one
per append. Followers that wait are told of every append, consumers only when the high watermark has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.image import PartitionState
from barnabas.config.topic import LogConfig
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.inspection import Inspected
from barnabas.log.log import AppendResult, Log, Origin
from barnabas.replication.progress import UNKNOWN_OFFSET, Alone, ClusterView, Follower, IsrProposal
from barnabas.types import TopicPartition, Uuid

if TYPE_CHECKING:
    from barnabas.metrics.topics import TopicCounters

ALL_REPLICAS = -1  # acks=all on the wire
NO_EPOCH = -1  # the client did not say which leader epoch it believes in

CommitCallback = Callable[[ErrorCode], None]

_ALONE = Alone()


class Watcher(Protocol):
    def partition_changed(self, new_bytes: int) -> None:
        """Called once: there is something new to read, or the partition is no longer what it was."""
        ...


class ReplicaWatcher(Watcher, Protocol):
    def high_watermark_moved(self) -> None:
        """Worth telling the follower with the next answer, but not worth an answer of its own."""
        ...


class Partition:
    __slots__ = (
        "_awaiting_commit",
        "_cluster",
        "_commits_alone",
        "_epoch_start",
        "_followers",
        "_is_writable",
        "_maximal_isr",
        "_replica_watchers",
        "_watchers",
        "broker_id",
        "counters",
        "has_enough_in_sync",
        "index",
        "is_leader",
        "is_only_here",
        "is_retired",
        "is_unsettled",
        "leader_epoch",
        "log",
        "proposal",
        "state",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: Uuid,
        log: Log,
        broker_id: int,
        counters: TopicCounters,
        cluster: ClusterView = _ALONE,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.broker_id = broker_id
        self.counters = counters
        self.is_leader = False
        self.is_retired = False
        self.is_unsettled = False  # a state could be taken over in part only; it will be tried again
        self.is_only_here = True
        """Nothing but this machine holds what is acknowledged now."""
        self.has_enough_in_sync = True
        self.state: PartitionState | None = None
        self.leader_epoch = NO_EPOCH  # that of the state: every fetch asks for it
        self.proposal: IsrProposal | None = None
        self._cluster = cluster
        self._is_writable = False
        self._commits_alone = False
        self._maximal_isr: tuple[int, ...] = ()
        self._epoch_start = 0
        self._followers: dict[int, Follower] = {}
        self._watchers: dict[Watcher, None] = {}
        self._replica_watchers: dict[ReplicaWatcher, None] = {}
        self._awaiting_commit: list[tuple[int, CommitCallback]] = []

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    # -- leadership ---------------------------------------------------------------------------------

    def apply(self, state: PartitionState) -> None:
        """Take over what the controller decided; what is not newer than the known state is ignored. If this raises,
        the same state can be taken over again (KAFKA-9307): each step may be repeated."""
        known = self.state
        if known is not None and not self._is_news(state, known):
            return
        self.is_unsettled = True
        leads = state.leader == self.broker_id
        if known is None or state.leader_epoch > known.leader_epoch:
            self._begin_epoch(state, leads)
        else:
            self._forget_lost(set(known.isr) - set(state.isr))
        # Known only now: had the beginning of the epoch failed, it would be begun again.
        self.state = state
        self.leader_epoch = state.leader_epoch
        self.is_leader = leads
        self.proposal = None
        self._measure()
        if not leads:
            self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._commit()
            if not self.has_enough_in_sync:
                self._fail_waiting(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self._changed(0)
        self.is_unsettled = False

    def _is_news(self, state: PartitionState, known: PartitionState) -> bool:
        new, old = _version(state), _version(known)
        return new > old or (self.is_unsettled and new == old)

    def step_down(self) -> None:
        """A state could not be taken over. That of before is over: until the next try nothing is served by it, or two
        brokers would lead."""
        self.is_leader = self._is_writable = self._commits_alone = False
        self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _begin_epoch(self, state: PartitionState, leads: bool) -> None:
        now = self._cluster.monotonic()
        if leads:
            self.log.start_epoch(state.leader_epoch)
            self._followers = {other: Follower(now) for other in state.replicas if other != self.broker_id}
            self._epoch_start = self.log.log_end_offset
            self._cluster.followed_by(self._followers)
        else:
            self.log.forget_unwritten_epochs()
            self._followers = {}

    def _forget_lost(self, gone: set[int]) -> None:
        """Whoever left the ISR without our asking, although its broker is up, has lost its disk: what it had before
        counts for nothing until it fetches again."""
        proposed = set(self.proposal.isr) if self.proposal is not None else gone
        for replica in gone & proposed:
            follower = self._followers.get(replica)
            if follower is not None and self._cluster.eligible_epoch(replica) is not None:
                follower.end_offset = UNKNOWN_OFFSET

    def _measure(self) -> None:
        """What follows from the state, the proposal and the settings; looked at with every append."""
        state = self.state
        if state is None:
            return
        added = self.proposal.isr if self.proposal is not None else ()
        self._maximal_isr = tuple(dict.fromkeys((*state.isr, *added)))
        # A topic with fewer replicas than min.insync.replicas could never be written otherwise (KIP-966).
        needed = min(self.log.config.min_insync_replicas, len(state.replicas))
        self.has_enough_in_sync = len(state.isr) >= needed
        self._is_writable = self.is_leader and not self._cluster.is_fenced
        self._commits_alone = self._maximal_isr == (self.broker_id,) and self.has_enough_in_sync
        self._measure_hosts(state)

    def _measure_hosts(self, state: PartitionState) -> None:
        self.is_only_here = len(state.isr) <= 1 or self._cluster.on_one_host(state.isr)

    def broker_changed(self, broker_id: int) -> None:
        """A broker has been registered again, perhaps on another machine; our state says nothing of that."""
        if self.state is not None and broker_id in self.state.isr:
            self._measure_hosts(self.state)

    def update_config(self, config: LogConfig) -> None:
        self.log.update_config(config)
        self._measure()
        if self.is_leader:
            self._commit()

    def fence(self) -> None:
        """This broker may have been replaced without knowing: no record is accepted until it knows more."""
        self._is_writable = False
        self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def unfence(self) -> None:
        self._measure()

    def retire(self, why: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """The partition leaves this broker (topic deleted, disk failed): nobody waits for it any longer."""
        self.is_leader = self._is_writable = self._commits_alone = False
        self.is_retired = True
        self._fail_waiting(why)
        self._changed(0)

    def leadership_error(self, epoch: int) -> ErrorCode:
        """Why a request that believes in `epoch` cannot be served here; NONE when it can."""
        if epoch != NO_EPOCH and epoch != self.leader_epoch:
            stale = epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if stale else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    @property
    def end_is_known(self) -> bool:
        """Has the high watermark passed what was there when this leader began? Before, it may lag behind what
        an earlier leader has shown to consumers (KIP-207)."""
        return self.log.high_watermark >= self._epoch_start

    # -- writing ------------------------------------------------------------------------------------

    @property
    def is_writable(self) -> bool:
        """Do we lead, as far as we can know? A fenced broker cannot: somebody else may."""
        return self._is_writable

    def append(
        self,
        batch: memoryview,
        now_ms: int,
        acks: int,
        origin: Origin = Origin.CLIENT,
        inspected: Inspected | None = None,
    ) -> AppendResult:
        """Append one batch as the leader. KafkaError says why it was refused; then nothing has changed.

        A client's batch may be Unchecked: then it is to be `inspected` in a thread first.
        """
        state = self.state
        if not self._is_writable or state is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic}-{self.index}"
            )
        if acks == ALL_REPLICAS and not self.has_enough_in_sync:
            raise self._too_few(state)
        result = self.log.append_as_leader(
            batch, state.leader_epoch, now_ms, origin=origin, inspected=inspected
        )
        if not result.duplicate:
            size = len(batch)
            counters = self.counters
            counters.bytes_in.value += size
            counters.messages_in.value += result.last_offset - result.first_offset + 1
            if self._commits_alone:
                self.log.advance_high_watermark(self.log.log_end_offset)
                if self._watchers:
                    self._tell_watchers(size)
            if self._replica_watchers:
                self._wake_replicas(size)
        return result

    def _too_few(self, state: PartitionState) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self.topic}-{self.index} has {len(state.isr)} replicas in sync, "
            f"min.insync.replicas is {self.log.config.min_insync_replicas}",
        )

    # -- followers ----------------------------------------------------------------------------------

    def is_in_sync(self, replica: int) -> bool:
        return self.state is not None and replica in self.state.isr

    @property
    def follows_a_leader(self) -> bool:
        return (
            not self.is_leader
            and not self.is_retired
            and not self.is_unsettled
            and self.state is not None
            and self.state.leader >= 0
        )

    def is_assigned(self, replica: int) -> bool:
        return self.state is not None and replica in self.state.replicas

    def follower_reached(self, replica: int, end_offset: int, broker_epoch: int) -> None:
        """A follower's fetch from `end_offset` tells that it holds everything below, as we do."""
        follower = self._followers.get(replica)
        if follower is None:
            follower = self._followers[replica] = Follower(self._cluster.monotonic())
        follower.reached(end_offset, self.log.log_end_offset, broker_epoch, self._cluster.monotonic())
        if replica in self._maximal_isr:
            self._commit()
        elif self._has_caught_up(replica, follower):
            self._propose((*self._committed_isr(), replica))

    def _has_caught_up(self, replica: int, follower: Follower) -> bool:
        return (
            self.proposal is None
            and self.is_leader
            and follower.end_offset >= max(self.log.high_watermark, self._epoch_start)
            and follower.broker_epoch == self._cluster.eligible_epoch(replica)
        )

    def review_isr(self, patience: float) -> None:
        """Ask for an ISR without those who have not had everything for longer than `patience` seconds, and with
        those who have: one that was not eligible when it caught up does not tell us again."""
        if not self.is_leader or not self._followers or self.proposal is not None:
            return
        now = self._cluster.monotonic()
        isr = self._committed_isr()
        staying = [member for member in isr if self._keeps_up(member, now, patience)]
        coming = [
            replica
            for replica, follower in self._followers.items()
            if replica not in isr
            and self.is_assigned(replica)
            and self._has_caught_up(replica, follower)
            and self._keeps_up(replica, now, patience)
        ]
        if coming or len(staying) < len(isr):
            self._propose((*staying, *coming))

    def _keeps_up(self, member: int, now: float, patience: float) -> bool:
        follower = self._followers.get(member)
        if follower is None:
            return member == self.broker_id
        if follower.end_offset >= self.log.log_end_offset:
            follower.caught_up_at = now
        return now - follower.caught_up_at <= patience

    def _committed_isr(self) -> tuple[int, ...]:
        return self.state.isr if self.state is not None else ()

    def _propose(self, isr: tuple[int, ...]) -> None:
        state = self.state
        assert state is not None
        members = tuple((member, self._epoch_of(member)) for member in isr)
        self.proposal = IsrProposal(state.leader_epoch, state.partition_epoch, members)
        self._measure()
        self._cluster.isr_wanted(self, self.proposal)

    def _epoch_of(self, member: int) -> int:
        """The epoch with which a member has fetched, so that one that restarted is not taken for it (KIP-903)."""
        follower = self._followers.get(member)
        return follower.broker_epoch if follower is not None else -1

    def refused(self, proposal: IsrProposal) -> None:
        """The controller will never grant it."""
        if self.proposal is proposal:
            self.proposal = None
            self._measure()
            self._commit()

    def in_sync_followers(self) -> Iterator[tuple[int, int]]:
        """(broker id, log end) of the members of the ISR besides us, as far as they are known."""
        for member in self._committed_isr():
            if (follower := self._followers.get(member)) is not None:
                yield member, follower.end_offset

    def _commit(self) -> None:
        """Move the high watermark to what every member of the maximal ISR has."""
        if not self.has_enough_in_sync or not self.is_leader:
            return
        committed = self.log.log_end_offset
        for member in self._maximal_isr:
            if member != self.broker_id:
                follower = self._followers.get(member)
                committed = min(committed, follower.end_offset if follower is not None else UNKNOWN_OFFSET)
        if committed > self.log.high_watermark:
            self.log.advance_high_watermark(committed)
            self._high_watermark_moved()

    def _high_watermark_moved(self) -> None:
        if self._awaiting_commit:
            self._answer_committed()
        for watcher in self._replica_watchers:
            watcher.high_watermark_moved()
        if self._watchers:
            self._tell_watchers(1)

    # -- following ----------------------------------------------------------------------------------

    def followed_to(self, high_watermark: int) -> None:
        """A leader has said how far is committed; readers of this replica may go on."""
        before = self.log.high_watermark
        self.log.advance_high_watermark(high_watermark)
        if self.log.high_watermark > before:
            self._tell_watchers(1)

    # -- waiting ------------------------------------------------------------------------------------

    def when_committed(self, offset: int, callback: CommitCallback) -> None:
        """Call back once the high watermark is at least `offset`, or with the error that prevents it."""
        if self.log.high_watermark >= offset:
            callback(ErrorCode.NONE)
        elif not self._is_writable:
            callback(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif not self.has_enough_in_sync:
            callback(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        else:
            self._awaiting_commit.append((offset, callback))

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def watch_end(self, watcher: ReplicaWatcher) -> None:
        """Be told of appends, committed or not: for followers."""
        self._replica_watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)
        self._replica_watchers.pop(watcher, None)  # type: ignore[call-overload]

    def log_start_moved(self) -> None:
        self._changed(0)

    def _changed(self, new_bytes: int) -> None:
        self._tell_watchers(new_bytes)
        self._wake_replicas(new_bytes)

    def _tell_watchers(self, new_bytes: int) -> None:
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher.partition_changed(new_bytes)

    def _wake_replicas(self, new_bytes: int) -> None:
        watchers, self._replica_watchers = self._replica_watchers, {}
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
        failures = []
        for _, callback in waiting:
            try:
                callback(error)
            except Exception as failure:  # the others must hear of it all the same
                failures.append(failure)
        if failures:
            raise failures[0]


def _version(state: PartitionState) -> tuple[int, int]:
    return state.leader_epoch, state.partition_epoch
