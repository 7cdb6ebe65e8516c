"""One partition on this broker: is it the leader, who is in sync, how far is committed, who waits.

Theory of operation. The controller decides leader, leader epoch and ISR; `apply` takes its word, unless it is older
than what is known. While leading, an append moves the log end; the high watermark follows the slowest member of the ISR
(`in_sync_replicas`).

A leader of a tiered topic that was elected uncleanly, or whose log is gone, may lack what lies in the object store. It
is *recovering*, and serves nobody, until somebody has compared its log with that (`recover`), or an operator says that
it need not be (`barnabas.remote.unclean.wait`).

Whatever a waiting fetch or produce could be interested in notifies the watchers (`watchers.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.cluster.image import RECOVERING, PartitionState
from barnabas.cluster.mirrors import MirrorTopic
from barnabas.config.topic import LogConfig
from barnabas.common.errors import NO_ERROR, ErrorCode, KafkaError
from barnabas.log.inspection import Inspected
from barnabas.log.log import CLIENT, AppendResult, Log, Origin
from barnabas.records.batch import Walked
from barnabas.replication.in_sync_replicas import InSyncReplicas
from barnabas.replication.progress import SingleNodeProgress, ClusterView, Follower, Followers, IsrProposal
from barnabas.replication.watchers import CommitCallback
from barnabas.common.types import TopicPartition, Uuid

if TYPE_CHECKING:
    from barnabas.metrics.topics import TopicCounters

ALL_REPLICAS: Final = -1  # acks=all on the wire
NO_EPOCH: Final = -1  # the client did not say which leader epoch it believes in

_ALONE = SingleNodeProgress()


class Partition(InSyncReplicas):
    __slots__ = (
        "counters", "has_lost_log", "index", "is_recovering", "is_retired", "is_unsettled", "leader_epoch", "topic",
        "topic_id", "undone_appends",
    )  # fmt: skip

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
        super().__init__(log, broker_id, cluster)
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.counters = counters
        self.is_retired = False
        self.is_unsettled = False  # a state could be taken over in part only; it will be tried again
        self.is_recovering = False  # the controller says that it leads, and its log is not in order yet
        self.has_lost_log = False
        """A log that should have been here was not: an empty one has taken its place."""
        self.leader_epoch = NO_EPOCH  # that of the state: every fetch asks for it
        self.undone_appends = 0
        """How often pending appends have failed: what was read of them in memory is void."""
        log.watch_pending(self._written, self._undone)

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
            self.is_recovering = leads and self._must_recover(state)
            self.has_lost_log = self.has_lost_log and self.is_recovering
            self._begin_epoch(state, leads and not self.is_recovering)
        else:
            self._forget_lost(set(known.isr) - set(state.isr))
        # Known only now: had the beginning of the epoch failed, it would be begun again.
        self.state = state
        self.leader_epoch = state.leader_epoch
        self.proposal = None
        self._lead_or_follow(leads and not self.is_recovering)
        self.is_unsettled = False

    def _lead_or_follow(self, leads: bool) -> None:
        self.is_leader = leads
        self._measure()
        if not leads:
            self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._commit()
            if not self.has_enough_in_sync:
                self._fail_waiting(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self._changed(0)

    def _must_recover(self, state: PartitionState) -> bool:
        config = self.log.config
        return (
            (state.leader_recovery_state == RECOVERING or self.has_lost_log)
            and (config.remote_storage_enable or self.log.is_tiered)
            and config.barnabas_remote_unclean_wait
        )

    def recover(self) -> None:
        """The log is in order: from now on this replica leads. The controller hears of it with an ISR."""
        state = self.state
        if not self.is_recovering or state is None:
            return
        self._begin_epoch(state, leads=True)
        self.is_recovering = self.has_lost_log = False
        self._lead_or_follow(leads=True)
        if state.leader_recovery_state == RECOVERING:  # else nothing would change, and no answer would come
            self._propose(state.isr)

    def begin_again(self) -> None:
        """The log of this leader goes on elsewhere: at the tiered end."""
        if self.is_leader and self.state is not None:
            self._begin_epoch(self.state, leads=True)
            self._lead_or_follow(leads=True)

    def _is_news(self, state: PartitionState, known: PartitionState) -> bool:
        new, old = _version(state), _version(known)
        return new > old or (self.is_unsettled and new == old)

    def step_down(self) -> None:
        """A state could not be taken over. That of before is over: until the next try nothing is served by it, or two
        brokers would lead."""
        self.is_leader = self._can_commit = self._is_writable = False
        self._commits_alone = self.is_recovering = False
        self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _begin_epoch(self, state: PartitionState, leads: bool) -> None:
        now = self._cluster.monotonic()
        self.log.drop_pending()
        self._flushing_to = 0  # what was to be flushed may have been cut
        if leads:
            self._start_epoch(state.leader_epoch)
            others = [replica for replica in state.replicas if replica != self.broker_id]
            self._followers = Followers((replica, Follower(now)) for replica in others)
            self._epoch_start = self.log.log_end_offset
            self._cluster.followed_by(self._followers)
        else:
            self.log.forget_unwritten_epochs()
            self._followers = Followers()

    def _start_epoch(self, leader_epoch: int) -> None:
        """The leader of a mirror writes no batches of its own: its epochs are those of the source."""
        mirror = self.mirror
        if mirror is None or mirror.is_own:
            self.log.start_epoch(leader_epoch)
            if mirror is not None:
                self.log.producers.forget_below(mirror.partition(self.index).own_from)
        else:
            self.log.forget_unwritten_epochs()

    def use_mirror(self, mirror: MirrorTopic | None) -> None:
        """The topic is a mirror, or is one in another state."""
        before, self.mirror = self.mirror, mirror
        if mirror is before:
            return
        self.log.epochs.are_of_source = mirror is not None and not mirror.is_own
        if self.state is not None:
            if self.is_leader and mirror is not None and mirror.is_own:
                self._start_epoch(self.leader_epoch)
            self._measure()

    def broker_changed(self, broker_id: int) -> None:
        """A broker has been registered again, perhaps on another machine; our state says nothing of that."""
        if self.state is not None and broker_id in self.state.isr:
            self._measure_hosts(self.state)

    def update_config(self, config: LogConfig) -> None:
        self.log.update_config(config)
        if self.is_recovering and self.state is not None and not self._must_recover(self.state):
            self.recover()
        self._measure()
        if self.is_leader:
            self._commit()

    def fence(self) -> None:
        """This broker may have been replaced without knowing: no record is accepted until it knows more."""
        self._can_commit = self._is_writable = False
        self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def unfence(self) -> None:
        self._measure()

    def retire(self, why: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """The partition leaves this broker (topic deleted, disk failed): nobody waits for it any longer."""
        self.is_leader = self._can_commit = self._is_writable = False
        self._commits_alone = self.is_recovering = False
        self.is_retired = True
        self._fail_waiting(why)
        self._changed(0)

    def leadership_error(self, epoch: int) -> ErrorCode:
        """Why a request that believes in `epoch` cannot be served here; NONE when it can."""
        if epoch != NO_EPOCH and epoch != self.leader_epoch:
            stale = epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if stale else ErrorCode.UNKNOWN_LEADER_EPOCH
        return NO_ERROR if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # -- writing ------------------------------------------------------------------------------------

    @property
    def is_writable(self) -> bool:
        """Do we lead, as far as we can know, and may clients write? A fenced broker cannot know: another may lead."""
        return self._is_writable

    @property
    def can_commit(self) -> bool:
        """Do we lead, as far as we can know? Of a mirror only batches of its source are appended."""
        return self._can_commit

    def append(
        self,
        batch: memoryview,
        now_ms: int,
        acks: int,
        origin: Origin = CLIENT,
        inspected: Inspected | None = None,
    ) -> AppendResult:
        """Append one batch as the leader. KafkaError says why it was refused; then nothing has changed.

        A client's batch may be Unchecked: then it is to be `inspected` in a thread first.
        """
        if not self._is_writable:
            raise self.why_not_writable()
        if acks == ALL_REPLICAS and not self.has_enough_in_sync:
            raise self.too_few()
        result = self.log.append_as_leader(batch, self.leader_epoch, now_ms, origin, inspected)
        first_offset, last_offset, _, is_duplicate = result
        if not is_duplicate:
            size = len(batch)
            counters = self.counters
            counters.bytes_in.value += size
            counters.messages_in.value += last_offset - first_offset + 1
            if self._commits_alone:
                self.log.commit_written()
                if self._watchers:
                    self._tell_watchers(size)
            elif self._shows_flushed_only:
                self._commit()
            if self._replica_watchers:
                self._wake_replicas(size)
        return result

    def why_not_writable(self) -> KafkaError:
        if self._can_commit and self.mirror is not None:
            return KafkaError(ErrorCode.POLICY_VIOLATION, self.mirror.why_not_written(self.topic))
        why = f"this broker does not lead {self.topic}-{self.index}"
        if self.is_recovering:
            why = (
                f"the leader of {self.topic}-{self.index} may lack records, and waits until it has read what is in the "
                "object store"
            )
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)

    def too_few(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self.topic}-{self.index} has {len(self._committed_isr())} replicas in sync, "
            f"min.insync.replicas is {self.log.config.min_insync_replicas}",
        )

    # -- of a mirror ----------------------------------------------------------------------------------

    def append_mirrored(self, batches: memoryview, walked: Walked, now_ms: int) -> None:
        """Append batches as the source has them. KafkaError if one is damaged; those before it are appended."""
        first, size = self.log.log_end_offset, sum(header.size for _, header in walked)
        try:
            self.log.append_as_follower(batches, now_ms, walked)
        finally:
            self.counters.bytes_in.value += size
            self.counters.messages_in.value += self.log.log_end_offset - first
            self.log_has_grown(size)

    def log_has_grown(self, size: int) -> None:
        """Something was appended to the log itself."""
        if self._commits_alone:
            self.log.commit_written()
            self._high_watermark_moved()
        else:
            self._commit()
        self._wake_replicas(size)

    def cut_mirrored(self, offset: int) -> None:
        """The log goes on at `offset`, as the source's does: without what lies behind, or without anything."""
        if offset > self.log.log_end_offset or self.log.is_empty:
            self.log.truncate_fully_and_start_at(offset)
        else:
            self.log.truncate_to(offset)
        self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER, above=self.log.log_end_offset)
        self.begin_again()

    def all_have(self, end: int) -> bool:
        """Has every replica in sync a log that agrees with ours, up to `end`?"""
        written = self.log.offsets.written
        return self._followers.least_end(self._maximal_isr, self.broker_id, written) >= end

    def _propose(self, isr: tuple[int, ...]) -> None:
        """Ask the controller for this ISR; until it answers, both this and the committed one count."""
        state = self.state
        assert state is not None
        members = self._followers.with_epochs(isr)
        self.proposal = IsrProposal(state.leader_epoch, state.partition_epoch, members)
        self._measure()
        self._cluster.isr_wanted(self, self.proposal)

    # -- following ----------------------------------------------------------------------------------

    @property
    def follows_a_leader(self) -> bool:
        return (
            not self.is_leader
            and not self.is_retired
            and not self.is_unsettled
            and not self.is_recovering
            and self.state is not None
            and self.state.leader >= 0
        )

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
        elif not self._can_commit:
            callback(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif not self.has_enough_in_sync:
            callback(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        else:
            self._awaiting_commit.append((offset, callback))

    def when_written(self, offset: int, callback: CommitCallback) -> None:
        """Call back once everything below `offset` is written, or with the error that prevents it."""
        if self.log.offsets.written >= offset:
            callback(ErrorCode.NONE)
        else:
            self._awaiting_write.append((offset, callback))

    def _written(self, new_bytes: int) -> None:
        """Appends that waited for a slow disk are written."""
        self._answer(self._awaiting_write, self.log.offsets.written)
        self._commit()
        self._wake_replicas(new_bytes)

    def _undone(self) -> None:
        """Appends that waited for a slow disk have failed, and are as if they had never been."""
        end = self.log.offsets.end
        self.undone_appends += 1
        self._epoch_start = min(self._epoch_start, end)
        if self.is_leader:
            self._start_epoch(self.leader_epoch)
        self._cluster.appends_undone(self)
        self._fail_waiting(ErrorCode.KAFKA_STORAGE_ERROR, above=end)


def _version(state: PartitionState) -> tuple[int, int]:
    return state.leader_epoch, state.partition_epoch
