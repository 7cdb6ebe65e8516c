"""One StreamsGroupHeartbeat, from the request to the response.

1. The member is created or updated. 2. The first member brings the topology; later ones must bring
the same. 3. Topology and topics are matched: tasks, or a problem. 4. If any of this changed, the
group epoch is bumped, and a target assignment is computed for it, unless it is too early. 5. The member moves a
step towards its target. All of this becomes records; the group itself changes when they are replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.coordination import CoordinatorRecord
from barnabas.groups.group import ClientInfo, DeadlineType, GroupDeadline
from barnabas.groups.modern import JOINING, check_member_epoch
from barnabas.groups.results import GroupResult
from barnabas.groups.streams.configured import ConfiguredTopology, InternalTopic
from barnabas.groups.streams.describe import task_ids
from barnabas.groups.streams.description import FIRST_HEARTBEAT_WITH_DESCRIPTIONS
from barnabas.groups.streams.group import NOT_VALIDATED, StreamsGroup
from barnabas.groups.streams.members import (
    UNKNOWN_TIMEOUT_MS,
    StreamsEndpoint,
    StreamsMember,
    StreamsMemberState,
)
from barnabas.groups.streams.reconciliation import StreamsTarget, reconcile
from barnabas.groups.streams.records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    member_record,
    topology_record,
)
from barnabas.groups.streams.sizing import PartitionCounts, StreamsStatus
from barnabas.groups.streams.tasks import NOTHING, StreamsTask, StreamsTasks, by_subtopology, tasks_of
from barnabas.groups.streams.topology import StreamsTopology, to_value, topology_of
from barnabas.protocol.messages import streams
from barnabas.protocol.messages.streams import (
    Endpoint,
    EndpointToPartitions,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TopicPartition,
)

if TYPE_CHECKING:
    from barnabas.groups.streams.manager import StreamsGroupManager


# -- Endpoints: partitions of instances that serve interactive queries ---------------------------------


def partitions_by_endpoint(
    group: StreamsGroup, updated: StreamsMember, configured: ConfiguredTopology, existing: PartitionCounts
) -> list[EndpointToPartitions]:
    """Partitions of every member; for the member that is being answered, those after this response."""
    others = [member for member in group.members.values() if member.member_id != updated.member_id]
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(member.endpoint.host, member.endpoint.port),
            active_partitions=_partitions(member.assigned.active, configured, existing),
            standby_partitions=_partitions(
                member.assigned.standby | member.assigned.warmup, configured, existing
            ),
        )
        for member in (*others, updated)
        if member.endpoint is not None
    ]


def _partitions(
    tasks: Iterable[StreamsTask], configured: ConfiguredTopology, existing: PartitionCounts
) -> list[TopicPartition]:
    """A task reads the partition with its number of every topic that has that many."""
    return [
        TopicPartition(topic, [index for index in indexes if index < existing.get(topic, 0)])
        for subtopology_id, indexes in by_subtopology(tasks)
        if subtopology_id in configured.subtopologies
        for topic in configured.subtopologies[subtopology_id].inputs
    ]


logger = rate_limited_logger(__name__)


class HeartbeatResult(NamedTuple):
    """The response, and the internal topics that the broker has to create."""

    response: StreamsGroupHeartbeatResponse
    missing: tuple[InternalTopic, ...] = ()


class Heartbeat:
    def __init__(
        self,
        kind: StreamsGroupManager,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        client: ClientInfo,
        result: GroupResult,
        version: int,
    ) -> None:
        self._kind = kind
        self._version = version
        self._group = group
        self._request = request
        self._client = client
        self._result = result
        self._owned = owned_tasks(request)
        self._statuses: list[streams.Status] = []

    def run(self) -> HeartbeatResult:
        member = self._find_member()
        updated = self._updated(member)
        self._group.offsets.note(self._request, self._version)
        change = self._change(member, updated)
        if change is not None:
            self._result.records.append(self._member_record(updated))
        topology = self._agree_on_topology()
        self._note_stale(updated)
        configured = self._kind.configured(self._group, topology)
        self._check_owned_tasks(member, configured)
        epoch = self._next_epoch(configured, change)
        target = self._target(updated, configured, epoch)
        reconciled = self._reconcile(updated, target)
        self._kind.expect_heartbeat(self._group.group_id, updated.member_id)
        if self._request.shutdown_application:
            self._kind.request_shutdown(self._group, updated.member_id)
        return self._outcome(member, reconciled, configured)

    # -- the member ---------------------------------------------------------------------------------

    def _find_member(self) -> StreamsMember:
        request = self._request
        if request.member_epoch == JOINING:
            return self._group.members.get(request.member_id) or StreamsMember(request.member_id)
        member = self._group.member(request.member_id)
        repeats = self._owned is not None and member.assigned.contains(self._owned)
        check_member_epoch("streams", member, request.member_epoch, may_repeat=repeats)
        return member

    def _updated(self, member: StreamsMember) -> StreamsMember:
        """The member with the fields of the request; omitted fields are unchanged."""
        request, endpoint, tags = self._request, self._request.user_endpoint, self._request.client_tags
        timeout_ms, topology = request.rebalance_timeout_ms, request.topology
        return replace(
            member,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms
            if timeout_ms == UNKNOWN_TIMEOUT_MS
            else timeout_ms,
            topology_epoch=member.topology_epoch if topology is None else topology.epoch,
            client_id=self._client.client_id,
            client_host=self._client.host,
            process_id=member.process_id if request.process_id is None else request.process_id,
            client_tags=member.client_tags if tags is None else {tag.key: tag.value for tag in tags},
            endpoint=member.endpoint if endpoint is None else StreamsEndpoint(endpoint.host, endpoint.port),
            local_state=self._local_state(member),
        )

    def _local_state(self, member: StreamsMember) -> Mapping[StreamsTask, int]:
        """Tasks that a joining member reports; afterwards the coordinator knows them."""
        if self._request.member_epoch != JOINING:
            return member.local_state
        offsets = self._request.task_offsets or ()
        return {StreamsTask(one.subtopology_id, one.partition): one.offset for one in offsets}

    def _member_record(self, updated: StreamsMember) -> CoordinatorRecord:
        """The record has no task offsets: if there are any, an effect stores them in memory."""
        record = member_record(self._group.group_id, updated)
        if not updated.local_state:
            return record
        return record._replace(effect=lambda *_: self._kind.store(self._group.group_id, updated))

    def _change(self, member: StreamsMember, updated: StreamsMember) -> str | None:
        if updated == member:
            return None
        is_new = member.member_id not in self._group.members
        return f"{member.member_id} " + (f"joined from {updated.client_host}" if is_new else "has changed")

    # -- the topology -------------------------------------------------------------------------------

    def _agree_on_topology(self) -> StreamsTopology:
        known, sent = self._group.topology, self._request.topology
        if sent is None:
            if known is None:  # its record was lost: the member sends it again when it rejoins
                raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "The group has no topology. Rejoin with it.")
            return known
        value = to_value(sent)
        if known is None:
            self._result.records.append(topology_record(self._group.group_id, value))
            return topology_of(value)
        if sent.epoch >= known.epoch and known != topology_of(value):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    def _note_stale(self, member: StreamsMember) -> None:
        known = self._group.topology
        if known is not None and member.topology_epoch < known.epoch:
            self._note(
                StreamsStatus.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{known.epoch}.",
            )

    def _check_owned_tasks(self, member: StreamsMember, configured: ConfiguredTopology) -> None:
        """Ignore tasks that no longer exist because a topic was recreated with fewer partitions, if the member was
        assigned them: INVALID_REQUEST would stop the application instead of the task."""
        if self._owned is None or not configured.is_ready:
            return
        assignments: set[StreamsTask] = set()
        for held in (member.assigned, member.pending_revocation):
            assignments.update(held.active, held.standby, held.warmup)
        owned = self._owned.active | self._owned.standby | self._owned.warmup
        for task in sorted(owned - assignments):
            subtopology = configured.subtopologies.get(task.subtopology_id)
            if subtopology is None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Subtopology {task.subtopology_id} does not exist in the topology.",
                )
            if not 0 <= task.partition < subtopology.tasks:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Task {task.partition} for subtopology {task.subtopology_id} is invalid. "
                    f"Number of tasks for this subtopology: {subtopology.tasks}",
                )

    # -- the group ----------------------------------------------------------------------------------

    def _next_epoch(self, configured: ConfiguredTopology, change: str | None) -> int:
        """Bump the epoch if something invalidates the current assignment; `change`: what is new about the member."""
        group = self._group
        validated = configured.topology.epoch if configured.is_ready else NOT_VALIDATED
        configs = self._kind.assignment_configs(group.group_id)
        reasons = [change] if change is not None else []
        if group.topology is not None:
            reasons += self._news(configured, validated, configs)
        elif not reasons:  # a new group needs no other reason
            reasons = ["the group has a topology again"]
        if not reasons:
            return group.epoch
        epoch, facts = group.epoch + 1, (configured.metadata_hash, validated, configs)
        reason = "; ".join(reasons)
        logger.info("group %r enters epoch %d: %s", group.group_id, epoch, reason)
        self._result.records.append(epoch_record(group.group_id, epoch, *facts, reason=reason))
        return epoch

    def _news(
        self, configured: ConfiguredTopology, validated: int, configs: Mapping[str, str]
    ) -> Iterator[str]:
        if configured.metadata_hash != self._group.metadata_hash:
            yield "the topics of the topology have changed"
        if validated != self._group.validated_epoch:
            yield "the topics do not fit the topology" if validated == NOT_VALIDATED else "the topics fit now"
        if configs != self._group.assignment_configs:
            yield "the settings of the assignment have changed"

    def _target(self, member: StreamsMember, configured: ConfiguredTopology, epoch: int) -> StreamsTarget:
        group = self._group
        if self._kind.waits_for_more(group):
            self._note(
                StreamsStatus.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured initial rebalance delay.",
            )
            return StreamsTarget(group.assignment_epoch, NOTHING)
        if group.assignment_epoch < epoch and (delay := self._delay(configured)) is not None:
            self._note(StreamsStatus.ASSIGNMENT_DELAYED, delay)
            epoch = group.assignment_epoch
        members = {**group.members, member.member_id: member}
        if group.assignment_epoch < epoch:
            targets: Mapping[str, StreamsTasks] = self._kind.assign(
                group, epoch, members, configured, self._result
            )
        else:
            epoch, targets = self._next_stage(member.member_id, group.assignment_epoch), group.targets
        staged = self._kind.staged(group, epoch, members, targets, configured)
        target = targets.get(member.member_id, NOTHING)
        return StreamsTarget(epoch, staged.assignments.get(member.member_id, target))

    def _delay(self, configured: ConfiguredTopology) -> str | None:
        """Return the reason why the target of the epoch has to wait, if any."""
        if not self._kind.may_assign(self._group):
            return "Assignment delayed due to the configured assignment interval."
        if self._kind.is_large(self._group, configured):
            self._kind.assigning.start(self._group.group_id)
            return "Assignment delayed: it is being computed."
        return None

    def _next_stage(self, member_id: str, epoch: int) -> int:
        """Enter another epoch with the same target if a warm-up task of the member has caught up."""
        group = self._group
        limits, staged = self._kind.staging_limits(group.group_id), group.staged
        if epoch < group.epoch or staged is None or staged.epoch != epoch:
            return epoch
        if not staged.is_ready(member_id, group.offsets, limits):
            return epoch
        facts = (group.metadata_hash, group.validated_epoch, group.assignment_configs)
        reason = f"tasks can move to {member_id}"
        logger.info("group %r enters epoch %d: %s", group.group_id, epoch + 1, reason)
        self._result.records += [
            epoch_record(group.group_id, epoch + 1, *facts, reason=reason),
            assignment_epoch_record(group.group_id, epoch + 1, self._kind.context.clock.now_ms()),
        ]
        return epoch + 1

    def _reconcile(self, member: StreamsMember, target: StreamsTarget) -> StreamsMember:
        if member.is_reconciled_to(target.epoch):
            return member
        moved = reconcile(member, target, self._group.owners, self._owned)
        if moved != member:
            group_id = self._group.group_id
            self._result.records.append(current_record(group_id, moved))
            if moved.state is StreamsMemberState.UNREVOKED_TASKS:
                self._kind.expect_revocation(group_id, moved.member_id, moved.rebalance_timeout_ms)
            else:
                self._kind.context.deadlines.cancel(
                    GroupDeadline(DeadlineType.REVOCATION, group_id, moved.member_id)
                )
        return moved

    # -- the answer ---------------------------------------------------------------------------------

    def _outcome(
        self, before: StreamsMember, now: StreamsMember, configured: ConfiguredTopology
    ) -> HeartbeatResult:
        response = StreamsGroupHeartbeatResponse(
            member_id=now.member_id,
            member_epoch=now.member_epoch,
            heartbeat_interval_ms=self._kind.heartbeat_interval_ms(self._group.group_id),
        )
        if self._version >= FIRST_HEARTBEAT_WITH_DESCRIPTIONS:
            response.task_offset_interval_ms = self._kind.task_offset_interval_ms(self._group.group_id)
            response.acceptable_recovery_lag = self._kind.staging_limits(self._group.group_id).recovery_lag
            response.topology_description_required = self._kind.descriptions.are_wanted_of(self._group, now)
        if self._request.member_epoch == JOINING or before.assigned != now.assigned:
            self._list_tasks(response, now)
        self._list_endpoints(response, now, configured)
        if configured.problem is not None:
            self._note(configured.problem.status, configured.problem.detail)
        if self._group.shutdown_requested_by is not None:
            self._note(
                StreamsStatus.SHUTDOWN_APPLICATION,
                f"Streams group member {self._group.shutdown_requested_by} encountered a fatal error and "
                "requested a shutdown for the entire application.",
            )
        if self._version >= FIRST_HEARTBEAT_WITH_DESCRIPTIONS:
            self._note_missing_tags(now)
        response.status = self._statuses
        return HeartbeatResult(response, configured.missing)

    def _note_missing_tags(self, member: StreamsMember) -> None:
        required = self._kind.rack_tags(self._group.group_id)
        if missing := [tag for tag in required if tag not in member.client_tags]:
            self._note(
                StreamsStatus.MISSING_CLIENT_TAGS,
                f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. "
                "Configure them via 'client.tag.<tagKey>' in your Streams config.",
            )

    def _list_tasks(self, response: StreamsGroupHeartbeatResponse, member: StreamsMember) -> None:
        """Tasks are sent when a member joins and when they change, not with every heartbeat."""
        response.active_tasks = task_ids(member.assigned.active)
        response.standby_tasks = task_ids(member.assigned.standby)
        response.warmup_tasks = task_ids(member.assigned.warmup)
        if member.endpoint is not None:
            self._group.endpoint_epoch += 1

    def _list_endpoints(
        self, response: StreamsGroupHeartbeatResponse, member: StreamsMember, configured: ConfiguredTopology
    ) -> None:
        group = self._group
        if group.endpoint_epoch != self._request.endpoint_information_epoch:
            existing = self._kind.partition_counts(configured.topology)
            listed = partitions_by_endpoint(group, member, configured, existing)
            response.partitions_by_user_endpoint = listed
        if (
            group.group_id in self._kind.context.groups
        ):  # otherwise the epoch of a group that is being created is lost
            response.endpoint_information_epoch = group.endpoint_epoch

    def _note(self, status: StreamsStatus, detail: str) -> None:
        self._statuses.append(streams.Status(status, detail))


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> StreamsTasks | None:
    """Tasks that the member reports; None if it omits them because nothing has changed."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return StreamsTasks(
        tasks_of(request.active_tasks), tasks_of(request.standby_tasks), tasks_of(request.warmup_tasks)
    )
