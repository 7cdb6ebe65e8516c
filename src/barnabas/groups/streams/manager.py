"""Streams groups in a shard: requests, replay and deadlines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.common.cooperative import Steps, finish
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.coordination import CoordinatorResult
from barnabas.groups.assigning import LARGE, Assigning, TargetAssignments
from barnabas.groups.group import (
    ClientInfo,
    Committer,
    DeadlineType,
    GroupDeadline,
    GroupType,
    PartitionCheck,
)
from barnabas.groups.manager import GroupManager, Replay, ShardContext, check_room_for_all
from barnabas.groups.modern import JOINING, LEAVING, may_assign
from barnabas.groups.results import GroupResult
from barnabas.groups.streams.assignor import StreamsMemberSpec, SubtopologySpec, assign_steps
from barnabas.groups.streams.configured import ConfiguredTopology, configure
from barnabas.groups.streams.description import (
    PAUSE_MS,
    StoredDescription,
    description_record,
    description_value,
    stored_description,
    update_failed,
)
from barnabas.groups.streams.group import StreamsGroup
from barnabas.groups.streams.heartbeats import Heartbeat, HeartbeatResult
from barnabas.groups.streams.members import StreamsMember, StreamsMemberState, states_on_disk
from barnabas.groups.streams.records import (
    assignment_epoch_record,
    epoch_record,
    member_tombstones,
    target_record,
)
from barnabas.groups.streams.replaying import StreamsReplays
from barnabas.groups.streams.tasks import NOTHING, StreamsTasks
from barnabas.groups.streams.topology import StreamsTopology
from barnabas.groups.streams.warmups import StagedAssignment, StagingLimits, stage
from barnabas.protocol.messages.streams import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from barnabas.protocol.schema import Message

# -- Asking members of streams groups for descriptions of their topologies, and keeping what they send -


class Descriptions:
    """Topology descriptions of the groups in a shard; `find` raises if the streams group does not exist."""

    def __init__(self, context: ShardContext, find: Callable[[str], StreamsGroup]) -> None:
        self._context = context
        self._find = find

    def are_wanted_of(self, group: StreamsGroup, member: StreamsMember) -> bool:
        """True if this member should send the topology description. One member at a time is asked."""
        topology, stored = group.topology, group.description
        if not self._context.settings.streams_description_max_bytes or topology is None:
            return False
        known = (group.refused_description_epoch, None if stored is None else stored.epoch)
        if member.topology_epoch != topology.epoch or topology.epoch in known:
            return False
        now_ms = self._context.clock.now_ms()
        if now_ms < group.description_wanted_at_ms:
            return False
        group.description_wanted_at_ms = now_ms + PAUSE_MS
        return True

    def update(self, request: StreamsGroupTopologyDescriptionUpdateRequest) -> CoordinatorResult[None]:
        """Store a member's description; UNKNOWN_MEMBER_ID if the group was deleted, so that the member rejoins."""
        if request.group_id not in self._context.groups:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Streams group {request.group_id} not found.")
        group = self._find(request.group_id)
        group.member(request.member_id)
        epoch = None if group.topology is None else group.topology.epoch
        if request.topology_epoch != epoch:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The description is of topology epoch {request.topology_epoch}, the group has {epoch}.",
            )
        value = description_value(request)
        stored = stored_description(value)
        if stored == group.description:
            return CoordinatorResult(None)
        self._check_room(group, stored)
        return CoordinatorResult(None, [description_record(request.group_id, value)])

    def _check_room(self, group: StreamsGroup, stored: StoredDescription) -> None:
        """Reject a description that does not fit; it is not requested again."""
        size, limit = len(stored.data), self._context.settings.streams_description_max_bytes
        try:
            self._context.ledger.check_bytes(size)
            if size > limit:
                setting = "barnabas.streams.topology.description.max.bytes"
                raise update_failed(f"The description takes {size} bytes, more than {limit} ({setting}).")
        except KafkaError as error:
            group.refused_description_epoch = stored.epoch
            raise update_failed(error.message) from error


logger = rate_limited_logger(__name__)

STANDBY_REPLICAS = "num.standby.replicas"
RACK_TAGS = "rack.aware.assignment.tags"
"""Group settings that the assignor uses; the group's record has the values last used."""


class StreamsGroupManager(GroupManager[StreamsGroup]):
    group_type = GroupType.STREAMS
    group_class = StreamsGroup

    def __init__(self, context: ShardContext) -> None:
        super().__init__(context)
        targets = TargetAssignments(StreamsGroup, self._compute_all, target_record, assignment_epoch_record)
        self.assigning = Assigning(context, targets)
        self.descriptions = Descriptions(context, self.find)

    def new_group(self, group_id: str) -> StreamsGroup:
        return StreamsGroup(group_id)

    def replays(self) -> Mapping[type[Message], Replay]:
        replays = StreamsReplays(
            lambda group_id, create: self.for_replay(group_id, create=create), self.forget
        )
        return replays.table()

    def check_commit(self, group: StreamsGroup, committer: Committer) -> PartitionCheck:
        return group.check_commit(committer)

    # -- heartbeats ---------------------------------------------------------------------------------

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: ClientInfo, version: int = 0
    ) -> CoordinatorResult[HeartbeatResult]:
        if request.member_epoch == LEAVING:
            return self._leave(request)
        result: CoordinatorResult[Any] = CoordinatorResult(None)
        group = self._group_of(request, result)
        if group.is_empty:
            self._wait_for_more(group)
        result.response = Heartbeat(self, group, request, client, result, version).run()
        return result

    def _group_of(self, request: StreamsGroupHeartbeatRequest, result: GroupResult) -> StreamsGroup:
        """Return the group; a joining member creates it and replaces an empty classic group of that name."""
        known = self.context.groups.get(request.group_id)
        if request.member_epoch != JOINING:
            if known is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {request.group_id} not found.")
            return self.find(request.group_id)
        if known is not None and known.group_type is GroupType.CLASSIC and known.is_empty:
            result.records += known.tombstones()
            known = None
        group = self.new_group(request.group_id) if known is None else self.find(request.group_id)
        self._check_room(group, request.member_id)
        return group

    def _check_room(self, group: StreamsGroup, member_id: str) -> None:
        check_room_for_all(self.context, group, member_id)
        limit = self.context.settings.streams_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {limit} members.",
            )

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> CoordinatorResult[HeartbeatResult]:
        group = self.find(request.group_id)
        member = group.member(request.member_id)
        if request.shutdown_application:
            self.request_shutdown(group, request.member_id)
        response = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVING, status=[])
        result = CoordinatorResult(HeartbeatResult(response))
        self._fence(group, member, "it left", result)
        return result

    def _fence(self, group: StreamsGroup, member: StreamsMember, reason: str, result: GroupResult) -> None:
        """Remove a member; the next heartbeat of any member computes a new assignment."""
        logger.info("group %r is without %r: %s", group.group_id, member.member_id, reason)
        result.records += member_tombstones(group.group_id, member.member_id)
        facts = (group.metadata_hash, group.validated_epoch, group.assignment_configs)
        cause = f"{member.member_id} is out: {reason}"
        result.records.append(epoch_record(group.group_id, group.epoch + 1, *facts, reason=cause))
        self.expect_nothing(group.group_id, member.member_id)
        result.revert = lambda: self._expect(group, member)

    def request_shutdown(self, group: StreamsGroup, member_id: str) -> None:
        """Ask all members to shut down, until the group is empty."""
        if group.shutdown_requested_by is None:
            logger.info("%r asks all members of group %r to stop", member_id, group.group_id)
            group.shutdown_requested_by = member_id

    def store(self, group_id: str, member: StreamsMember) -> None:
        """Effect that stores member state which its record does not have."""
        group = self.for_replay(group_id, create=True)
        assert group is not None
        group.store(member)

    # -- topics -------------------------------------------------------------------------------------

    def partition_counts(self, topology: StreamsTopology) -> dict[str, int]:
        """Existing topics of a topology."""
        found = (self.context.topics.find(name) for name in topology.required_topics)
        return {topic.name: topic.partitions for topic in found if topic is not None}

    def configured(self, group: StreamsGroup, topology: StreamsTopology) -> ConfiguredTopology:
        """Recompute only if a topic has changed since."""
        known = group.configured
        if known is not None and known.topology == topology and not group.topics_may_have_changed:
            return known
        current = self.context.topics.hash_of(topology.required_topics)
        if known is None or known.topology != topology or known.metadata_hash != current:
            known = configure(topology, self.partition_counts(topology), current)
            group.configured = known
        if current == group.metadata_hash:
            group.topics_may_have_changed = False
        return known

    # -- assignments --------------------------------------------------------------------------------

    def _wait_for_more(self, group: StreamsGroup) -> None:
        """Delay the first assignment: instances of an application start together."""
        key = GroupDeadline(DeadlineType.INITIAL_DELAY, group.group_id)
        delay_ms = self.context.configs.milliseconds(group.group_id, "streams.initial.rebalance.delay.ms")
        if delay_ms and key not in self.context.deadlines:
            self.context.deadlines.set(key, delay_ms)

    def waits_for_more(self, group: StreamsGroup) -> bool:
        return GroupDeadline(DeadlineType.INITIAL_DELAY, group.group_id) in self.context.deadlines

    def may_assign(self, group: StreamsGroup) -> bool:
        return may_assign(group, self.assignment_interval_ms(group.group_id), self.context.clock.now_ms())

    def assignment_configs(self, group_id: str) -> dict[str, str]:
        configs = {
            STANDBY_REPLICAS: str(self.context.configs.value(group_id, "streams.num.standby.replicas"))
        }
        if tags := self.rack_tags(group_id):
            configs[RACK_TAGS] = ",".join(tags)
        return configs

    def rack_tags(self, group_id: str) -> tuple[str, ...]:
        tags: tuple[str, ...] = self.context.configs.value(group_id, "streams.rack.aware.assignment.tags")
        return tags

    def task_offset_interval_ms(self, group_id: str) -> int:
        return self.context.configs.milliseconds(group_id, "streams.task.offset.interval.ms")

    def staging_limits(self, group_id: str) -> StagingLimits:
        value = self.context.configs.value
        return StagingLimits(
            int(value(group_id, "streams.num.warmup.replicas")),
            int(value(group_id, "streams.acceptable.recovery.lag")),
        )

    def staged(
        self,
        group: StreamsGroup,
        epoch: int,
        members: Mapping[str, StreamsMember],
        targets: Mapping[str, StreamsTasks],
        configured: ConfiguredTopology,
    ) -> StagedAssignment:
        """Large groups get the target: staging them would take too long for a heartbeat."""
        if group.staged is None or group.staged.epoch != epoch:
            stateful = {name for name, one in configured.subtopologies.items() if one.is_stateful}
            limits = self.staging_limits(group.group_id)
            group.staged = StagedAssignment(epoch)
            if limits.warmups and not self.is_large(group, configured):
                group.staged = stage(epoch, members, targets, stateful, group.offsets, limits)
        return group.staged

    def assign(
        self,
        group: StreamsGroup,
        epoch: int,
        members: Mapping[str, StreamsMember],
        configured: ConfiguredTopology,
        result: GroupResult,
    ) -> dict[str, StreamsTasks]:
        """Compute the targets of an epoch and write the changed ones."""
        targets = finish(self._compute(group.group_id, members, group.targets, configured))
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                result.records.append(target_record(group.group_id, member_id, target))
        result.records.append(assignment_epoch_record(group.group_id, epoch, self.context.clock.now_ms()))
        return targets

    def is_large(self, group: StreamsGroup, configured: ConfiguredTopology) -> bool:
        """True if computing the target would take too long for a heartbeat."""
        tasks = sum(one.tasks for one in configured.subtopologies.values())
        return len(group.members) + tasks * (1 + self._standbys(group.group_id)) > LARGE

    def _standbys(self, group_id: str) -> int:
        return int(self.assignment_configs(group_id)[STANDBY_REPLICAS])

    def _compute_all(self, group: StreamsGroup) -> Steps[dict[str, StreamsTasks]]:
        """Targets for the current state of the group."""
        if group.topology is None:
            return dict.fromkeys(group.members, NOTHING)
        configured = self.configured(group, group.topology)
        members, targets = dict(group.members), dict(group.targets)
        return (yield from self._compute(group.group_id, members, targets, configured))

    def _compute(
        self,
        group_id: str,
        members: Mapping[str, StreamsMember],
        targets: Mapping[str, StreamsTasks],
        configured: ConfiguredTopology,
    ) -> Steps[dict[str, StreamsTasks]]:
        if not configured.is_ready:
            return dict.fromkeys(members, NOTHING)
        found, tags = states_on_disk(members), self.rack_tags(group_id)
        specs = {
            member_id: StreamsMemberSpec(
                member.process_id,
                targets.get(member_id) or found.get(member_id, NOTHING),
                tuple(member.client_tags.get(tag) for tag in tags),
            )
            for member_id, member in members.items()
        }
        subtopologies = {
            subtopology_id: SubtopologySpec(one.tasks, one.is_stateful)
            for subtopology_id, one in configured.subtopologies.items()
        }
        return (yield from assign_steps(specs, subtopologies, self._standbys(group_id)))

    # -- time ---------------------------------------------------------------------------------------

    def deadline_reached(self, group: StreamsGroup, deadline: GroupDeadline, result: GroupResult) -> None:
        if deadline.type is DeadlineType.INITIAL_DELAY:
            self._end_initial_delay(group, result)
            return
        member = group.members.get(deadline.member_id)
        if member is None:
            return
        if deadline.type is DeadlineType.HEARTBEAT:
            self._fence(group, member, "it sent no heartbeat within its session timeout", result)
        elif deadline.type is DeadlineType.REVOCATION and member.state is StreamsMemberState.UNREVOKED_TASKS:
            self._fence(group, member, "it kept tasks beyond its rebalance timeout", result)

    def _end_initial_delay(self, group: StreamsGroup, result: GroupResult) -> None:
        if group.is_empty or group.topology is None or group.epoch <= group.assignment_epoch:
            return
        if self.may_assign(group):
            configured = self.configured(group, group.topology)
            if self.is_large(group, configured):
                self.assigning.start(group.group_id)
            else:
                self.assign(group, group.epoch, group.members, configured, result)

    def loaded(self, group: StreamsGroup) -> None:
        for member in group.members.values():
            self._expect(group, member)

    def _expect(self, group: StreamsGroup, member: StreamsMember) -> None:
        self.expect_heartbeat(group.group_id, member.member_id)
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            self.expect_revocation(group.group_id, member.member_id, member.rebalance_timeout_ms)

    def unloaded(self, group: StreamsGroup) -> None:
        """Nothing to do: no request is parked, every heartbeat is answered immediately."""
