"""One partition on this broker: leadership, ISR, high watermark and waiters.

Theory of operation. The controller decides leader, leader epoch and ISR; `apply` takes over its state unless it is
older than the known one. On the leader, an append moves the log end; the high watermark follows the slowest member
of the ISR (`in_sync_replicas`).

A leader of a tiered topic that was elected uncleanly, or whose log is missing, may lack records that are in the
object store. It is *recovering*, and serves no clients, until its log was compared with the object store
(`recover`), or an operator waives that (`barnabas.remote.unclean.wait`).

Changes that a delayed fetch or produce may depend on notify the watchers (`watchers.py`). Reads, of local and of remote
segments, are in `cold_reads.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.cluster import MirrorTopic
from barnabas.cluster.image import RECOVERING, PartitionState
from barnabas.common.errors import NO_ERROR, ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.topic import LogConfig
from barnabas.log import CLIENT, AppendResult, Inspected, Log, Origin
from barnabas.records.batch import Walked
from barnabas.replication.cold_reads import ReadablePartition
from barnabas.replication.progress import ClusterView, Follower, Followers, IsrProposal, SingleNodeProgress
from barnabas.replication.watchers import CommitCallback

if TYPE_CHECKING:
    from barnabas.metrics import TopicCounters

ALL_REPLICAS: Final = -1  # acks=all on the wire
NO_EPOCH: Final = -1  # the client did not send a leader epoch

_ALONE = SingleNodeProgress()


class Partition(ReadablePartition):
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
        self.is_unsettled = False  # a state was only partly taken over; it is retried
        self.is_recovering = False  # the controller made it leader, and its log is not recovered yet
        self.has_lost_log = False
        """True if the log was missing and an empty one replaced it."""
        self.leader_epoch = NO_EPOCH  # that of the state: every fetch needs it
        self.undone_appends = 0
        """Number of failed pending appends: cached state derived from them is invalid."""
        log.watch_pending(self._written, self._undone)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    # -- leadership ---------------------------------------------------------------------------------

    def apply(self, state: PartitionState) -> None:
        """Take over the controller's state; a state that is not newer is ignored. If this raises, the same state
        can be applied again (KAFKA-9307): each step is idempotent."""
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
        # Set last: if the start of the epoch failed, it is repeated.
        self.state = state
        self.leader_epoch = state.leader_epoch
        self.proposal = None
        self._lead_or_follow(leads and not self.is_recovering)
        self.is_unsettled = False

    def _lead_or_follow(self, leads: bool) -> None:
        self.is_leader = leads
        self._recompute_flags()
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
        """Lead from now on: the log is recovered. The controller is notified with an ISR."""
        state = self.state
        if not self.is_recovering or state is None:
            return
        self._begin_epoch(state, leads=True)
        self.is_recovering = self.has_lost_log = False
        self._lead_or_follow(leads=True)
        if (
            state.leader_recovery_state == RECOVERING
        ):  # otherwise nothing would change, and no response would arrive
            self._propose(state.isr)

    def begin_again(self) -> None:
        """Restart the leader's log at the tiered end."""
        if self.is_leader and self.state is not None:
            self._begin_epoch(self.state, leads=True)
            self._lead_or_follow(leads=True)

    def _is_news(self, state: PartitionState, known: PartitionState) -> bool:
        new, old = _version(state), _version(known)
        return new > old or (self.is_unsettled and new == old)

    def step_down(self) -> None:
        """Serve nothing until the next attempt: a state could not be applied, and the old one is no longer valid.
        Otherwise two brokers could lead."""
        self.is_leader = self._can_commit = self._is_writable = False
        self._commits_alone = self.is_recovering = False
        self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _begin_epoch(self, state: PartitionState, leads: bool) -> None:
        now = self._cluster.monotonic()
        self.log.drop_pending()
        self._flushing_to = 0  # records to be flushed may have been truncated
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
        """Start a leader epoch. The leader of a mirror keeps the epochs of the source."""
        mirror = self.mirror
        if mirror is None or mirror.is_own:
            self.log.start_epoch(leader_epoch)
            if mirror is not None:
                self.log.producers.forget_below(mirror.partition(self.index).own_from)
        else:
            self.log.forget_unwritten_epochs()

    def use_mirror(self, mirror: MirrorTopic | None) -> None:
        """Set or change the mirror state of the topic."""
        before, self.mirror = self.mirror, mirror
        if mirror is before:
            return
        self.log.epochs.are_of_source = mirror is not None and not mirror.is_own
        if self.state is not None:
            if self.is_leader and mirror is not None and mirror.is_own:
                self._start_epoch(self.leader_epoch)
            self._recompute_flags()

    def broker_changed(self, broker_id: int) -> None:
        """Handle the registration of a broker, perhaps on another host, which our state does not show."""
        if self.state is not None and broker_id in self.state.isr:
            self._recompute_hosts(self.state)

    def update_config(self, config: LogConfig) -> None:
        self.log.update_config(config)
        if self.is_recovering and self.state is not None and not self._must_recover(self.state):
            self.recover()
        self._recompute_flags()
        if self.is_leader:
            self._commit()

    def fence(self) -> None:
        """Accept no records: this broker may have been replaced without knowing."""
        self._can_commit = self._is_writable = False
        self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def unfence(self) -> None:
        self._recompute_flags()

    def retire(self, reason: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """Fail all waiters, because the partition leaves this broker (topic deleted, disk failed)."""
        self.is_leader = self._can_commit = self._is_writable = False
        self._commits_alone = self.is_recovering = False
        self.is_retired = True
        self._fail_waiting(reason)
        self._changed(0)

    def leadership_error(self, epoch: int) -> ErrorCode:
        """The error for a request with this leader epoch; NONE if it can be served."""
        if epoch != NO_EPOCH and epoch != self.leader_epoch:
            stale = epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if stale else ErrorCode.UNKNOWN_LEADER_EPOCH
        return NO_ERROR if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # -- writing ------------------------------------------------------------------------------------

    @property
    def is_writable(self) -> bool:
        """True if this broker leads, as far as it knows, and clients may write. A fenced broker cannot know."""
        return self._is_writable

    @property
    def can_commit(self) -> bool:
        """True if this broker leads, as far as it knows. A mirror appends only batches of its source."""
        return self._can_commit

    def append(
        self,
        batch: memoryview,
        now_ms: int,
        acks: int,
        origin: Origin = CLIENT,
        inspected: Inspected | None = None,
    ) -> AppendResult:
        """Append one batch as leader. KafkaError gives the reason for a rejection; then nothing has changed.

        A client's batch may raise InspectionRequiredError: it must be `inspected` in a thread first.
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
                    self._notify_watchers(size)
            elif self._shows_flushed_only:
                self._commit()
            if self._replica_watchers:
                self._wake_replicas(size)
        return result

    def why_not_writable(self) -> KafkaError:
        if self._can_commit and self.mirror is not None:
            return KafkaError(ErrorCode.POLICY_VIOLATION, self.mirror.write_refusal(self.topic))
        reason = f"this broker does not lead {self.topic}-{self.index}"
        if self.is_recovering:
            reason = (
                f"the leader of {self.topic}-{self.index} may lack records, and waits until it has read what is in the "
                "object store"
            )
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)

    def too_few(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self.topic}-{self.index} has {len(self._committed_isr())} replicas in sync, "
            f"min.insync.replicas is {self.log.config.min_insync_replicas}",
        )

    # -- of a mirror ----------------------------------------------------------------------------------

    def append_mirrored(self, batches: memoryview, walked: Walked, now_ms: int) -> None:
        """Append batches as read from the source. KafkaError if one is corrupt; those before it are appended."""
        first, size = self.log.log_end_offset, sum(header.size for _, header in walked)
        try:
            self.log.append_as_follower(batches, now_ms, walked)
        finally:
            self.counters.bytes_in.value += size
            self.counters.messages_in.value += self.log.log_end_offset - first
            self.log_has_grown(size)

    def log_has_grown(self, size: int) -> None:
        """Notify watchers after an append to the log itself."""
        if self._commits_alone:
            self.log.commit_written()
            self._high_watermark_moved()
        else:
            self._commit()
        self._wake_replicas(size)

    def cut_mirrored(self, offset: int) -> None:
        """Restart a mirror's log at `offset`: truncated there, or empty."""
        if offset > self.log.log_end_offset or self.log.is_empty:
            self.log.truncate_fully_and_start_at(offset)
        else:
            self.log.truncate_to(offset)
        self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER, above=self.log.log_end_offset)
        self.begin_again()

    def all_have(self, end: int) -> bool:
        """Return True if every electable replica has fetched in this epoch up to `end`. A member of the ELR that
        has not may have uncommitted records of an earlier leader. While the files of this log are replaced, a
        kill would leave it at another end."""
        if not self.log.is_settled:
            return False
        electable = (*self._maximal_isr, *(self.state.elr if self.state is not None else ()))
        return self._followers.least_end(electable, self.broker_id, self.log.offsets.written) >= end

    def _propose(self, isr: tuple[int, ...]) -> None:
        """Ask the controller for this ISR; until it responds, both this and the committed ISR count."""
        state = self.state
        assert state is not None
        members = self._followers.with_epochs(isr)
        self.proposal = IsrProposal(state.leader_epoch, state.partition_epoch, members)
        self._recompute_flags()
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
        """Apply the leader's high watermark; readers of this replica may continue."""
        before = self.log.high_watermark
        self.log.advance_high_watermark(high_watermark)
        if self.log.high_watermark > before:
            self._notify_watchers(1)

    # -- waiting ------------------------------------------------------------------------------------

    def when_committed(self, offset: int, callback: CommitCallback) -> None:
        """Call back once the high watermark reaches `offset`, or with the error that prevents it."""
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
        """Notify waiters: appends that waited for a slow disk are written."""
        self._answer(self._awaiting_write, self.log.offsets.written)
        self._commit()
        self._wake_replicas(new_bytes)

    def _undone(self) -> None:
        """Undo appends that waited for a slow disk and failed."""
        end = self.log.offsets.end
        self.undone_appends += 1
        self._epoch_start = min(self._epoch_start, end)
        if self.is_leader:
            self._start_epoch(self.leader_epoch)
        self._cluster.appends_undone(self)
        self._fail_waiting(ErrorCode.KAFKA_STORAGE_ERROR, above=end)


def _version(state: PartitionState) -> tuple[int, int]:
    return state.leader_epoch, state.partition_epoch
