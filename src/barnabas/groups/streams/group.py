"""A streams group: a topology, members that are threads of its application, and task owners."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.coordination import CoordinatorRecord
from barnabas.groups.group import Committer, GroupType, PartitionCheck, any_partition
from barnabas.groups.memory_budget import Weight
from barnabas.groups.modern import ModernGroup, ModernGroupState
from barnabas.groups.streams.configured import ConfiguredTopology
from barnabas.groups.streams.description import StoredDescription, description_tombstone
from barnabas.groups.streams.members import StreamsMember
from barnabas.groups.streams.records import group_tombstones
from barnabas.groups.streams.tasks import NOTHING, HeldTasks, StreamsTask, StreamsTasks
from barnabas.groups.streams.topology import StreamsTopology
from barnabas.groups.streams.warmups import OffsetReports, StagedAssignment

# -- Task owners, including those of tasks that still have to be revoked -------------------------------


class TaskOwners:
    """An active task has one owner. A process has a task at most once among its standbys and warm-ups."""

    def __init__(self) -> None:
        self._active: dict[StreamsTask, str] = {}
        self._standby: dict[StreamsTask, set[str]] = {}
        self._warmup: dict[StreamsTask, set[str]] = {}

    def active(self, task: StreamsTask) -> str | None:
        return self._active.get(task)

    def has(self, process_id: str, task: StreamsTask) -> bool:
        return self._active.get(task) == process_id or self.has_copy(process_id, task)

    def has_copy(self, process_id: str, task: StreamsTask) -> bool:
        return process_id in self._standby.get(task, ()) or process_id in self._warmup.get(task, ())

    def replace(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        if old is not None:
            for held in (old.assigned, old.pending_revocation):
                self._remove(held, old.process_id)
        if new is not None:
            for held in (new.assigned, new.pending_revocation):
                self._add(held, new.process_id)

    def _add(self, held: HeldTasks, process_id: str) -> None:
        for task in held.active:
            self._active[task] = process_id
        for tasks, owners in ((held.standby, self._standby), (held.warmup, self._warmup)):
            for task in tasks:
                owners.setdefault(task, set()).add(process_id)

    def _remove(self, held: HeldTasks, process_id: str) -> None:
        for task in held.active:
            if self._active.get(task) == process_id:
                del self._active[task]
        for tasks, owners in ((held.standby, self._standby), (held.warmup, self._warmup)):
            _discard(tasks, owners, process_id)


def _discard(tasks: Collection[StreamsTask], owners: dict[StreamsTask, set[str]], process_id: str) -> None:
    for task in tasks:
        processes = owners.get(task)
        if processes is None:
            continue
        processes.discard(process_id)
        if not processes:
            del owners[task]


FIRST_EPOCH = 1
"""Epoch of a group before the first member joins, and of its assignment; the first join makes it 2."""

NOT_VALIDATED = -1
"""Validated topology epoch of a group whose topics do not fit its topology."""


TASK_BYTES = 150  # memory of a task and an epoch


class StreamsGroup(ModernGroup[StreamsMember, StreamsTasks]):
    group_type = GroupType.STREAMS
    protocol_type = "streams"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = self.assignment_epoch = FIRST_EPOCH
        self.topology: StreamsTopology | None = None
        self.validated_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        self.owners = TaskOwners()
        self.description: StoredDescription | None = None
        # A restart may lose the following state: it is computed or requested again.
        self.configured: ConfiguredTopology | None = None
        self.offsets = OffsetReports()
        self.staged: StagedAssignment | None = None
        self.endpoint_epoch = 0
        self.shutdown_requested_by: str | None = None
        self.description_wanted_at_ms = 0
        self.refused_description_epoch = NOT_VALIDATED

    # -- facts --------------------------------------------------------------------------------------

    @property
    def state(self) -> ModernGroupState:
        if self.members and (self.topology is None or self.topology.epoch != self.validated_epoch):
            return ModernGroupState.NOT_READY
        return super().state

    def subscribed_topics(self) -> Set[str]:
        return frozenset() if self.topology is None else self.topology.required_topics

    def weight(self) -> Weight:
        members, size = super().weight()
        size += 0 if self.topology is None else self.topology.size
        size += 0 if self.description is None else len(self.description.data)
        size += TASK_BYTES * sum(len(member.local_state) for member in self.members.values())
        size += TASK_BYTES * len(self.offsets)
        return Weight(members, size)

    def consumes(self, topic: str) -> bool:
        """Offsets of an empty group may expire and be deleted."""
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

    def target(self, member_id: str) -> StreamsTasks:
        return self.targets.get(member_id, NOTHING)

    def tombstones(self) -> list[CoordinatorRecord]:
        described = [] if self.description is None else [description_tombstone(self.group_id)]
        return described + group_tombstones(self.group_id, self.members)

    # -- replays ------------------------------------------------------------------------------------

    def set_epoch(self, epoch: int, metadata_hash: int) -> None:
        """A leaving member bumps the epoch without checking the topics: the next heartbeat still has to."""
        is_unseen = self.topics_may_have_changed and metadata_hash == self.metadata_hash
        super().set_epoch(epoch, metadata_hash)
        self.topics_may_have_changed = is_unseen

    def store(self, member: StreamsMember) -> None:
        self.owners.replace(self.members.get(member.member_id), member)
        super().store(member)

    def remove(self, member_id: str) -> None:
        self.owners.replace(self.members.get(member_id), None)
        super().remove(member_id)
        self.offsets.remove(member_id)
        if not self.members:
            self.shutdown_requested_by = None

    # -- offsets ------------------------------------------------------------------------------------

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        known = self.member(member_id or "").member_epoch
        if epoch != known:
            raise KafkaError(
                ErrorCode.STALE_MEMBER_EPOCH,
                f"The received member epoch {epoch} does not match the expected member epoch {known}.",
            )

    def check_commit(self, committer: Committer) -> PartitionCheck:
        """Accept an older epoch for tasks that the member has owned since then."""
        if committer.needs_no_member(self.members):
            return any_partition
        member = self.member(committer.member_id)
        committer.check_version("streams")
        if committer.epoch == member.member_epoch:
            return any_partition
        if committer.epoch > member.member_epoch:
            raise _stale(
                f"Received member epoch {committer.epoch} is newer than current member epoch "
                f"{member.member_epoch}."
            )
        return self._task_check(member, committer.epoch)

    def _task_check(self, member: StreamsMember, epoch: int) -> PartitionCheck:
        readers = {} if self.topology is None else self.topology.readers
        held = {**member.pending_revocation.active, **member.assigned.active}

        def check(tp: TopicPartition, topic_id: Uuid) -> None:
            reader = readers.get(tp.topic)
            if reader is None:
                raise _stale(f"Topic {tp.topic} is not in the topology.")
            task = StreamsTask(reader, tp.partition)
            since = held.get(task)
            if since is None:
                raise _stale(f"Task {task} is not assigned or pending revocation for member.")
            if epoch < since:
                raise _stale(
                    f"Received member epoch {epoch} is older than assignment epoch {since} for task {task}."
                )

        return check


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)
