"""Records of streams groups in `__consumer_offsets`, as Apache Kafka 4.3 writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from barnabas.coordination import CoordinatorRecord
from barnabas.groups.records import MemberKeys, record, tombstone
from barnabas.groups.streams.members import StreamsEndpoint, StreamsMember, state_of
from barnabas.groups.streams.tasks import HeldTasks, StreamsTask, StreamsTasks, by_subtopology, tasks_of
from barnabas.protocol.messages.records import streams_group as written
from barnabas.protocol.messages.records.streams_group import (
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberTaskIds,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

member_tombstones = MemberKeys(
    StreamsGroupMemberMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupCurrentMemberAssignmentKey,
).tombstones


# -- the group --------------------------------------------------------------------------------------


def epoch_record(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_epoch: int,
    configs: Mapping[str, str],
    *,
    reason: str,
) -> CoordinatorRecord:
    """A new epoch with its reason."""
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_epoch,
        last_assignment_configs=[LastAssignmentConfig(key, configs[key]) for key in sorted(configs)],
    )
    return record(StreamsGroupMetadataKey(group_id=group_id), value, reason)


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    return record(StreamsGroupTopologyKey(group_id=group_id), value)


def assignment_epoch_record(group_id: str, epoch: int, now_ms: int) -> CoordinatorRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


# -- members ----------------------------------------------------------------------------------------


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    endpoint = member.endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else written.Endpoint(endpoint.host, endpoint.port),
        client_tags=[KeyValue(key, member.client_tags[key]) for key in sorted(member.client_tags)],
    )
    return record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_record(group_id: str, member_id: str, target: StreamsTasks) -> CoordinatorRecord:
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target_ids(target.active),
        standby_tasks=_target_ids(target.standby),
        warmup_tasks=_target_ids(target.warmup),
    )
    return record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def _target_ids(tasks: Iterable[StreamsTask]) -> list[StreamsGroupTargetAssignmentMemberTaskIds]:
    return [StreamsGroupTargetAssignmentMemberTaskIds(*ids) for ids in by_subtopology(tasks)]


def current_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    assigned, revoked = member.assigned, member.pending_revocation
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_current_ids(assigned.standby),
        warmup_tasks=_current_ids(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(revoked.active),
        standby_tasks_pending_revocation=_current_ids(revoked.standby),
        warmup_tasks_pending_revocation=_current_ids(revoked.warmup),
    )
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return record(key, value)


def _current_ids(tasks: Iterable[StreamsTask]) -> list[StreamsGroupCurrentMemberAssignmentTaskIds]:
    return [StreamsGroupCurrentMemberAssignmentTaskIds(*ids) for ids in by_subtopology(tasks)]


def _with_epochs(epochs: Mapping[StreamsTask, int]) -> list[StreamsGroupCurrentMemberAssignmentTaskIds]:
    return [
        StreamsGroupCurrentMemberAssignmentTaskIds(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[epochs[StreamsTask(subtopology_id, index)] for index in partitions],
        )
        for subtopology_id, partitions in by_subtopology(epochs)
    ]


# -- reading them -----------------------------------------------------------------------------------


def with_metadata(member: StreamsMember, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else StreamsEndpoint(endpoint.host, endpoint.port),
        client_tags={tag.key: tag.value for tag in value.client_tags},
    )


def with_assignment(member: StreamsMember, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=state_of(value.state),
        assigned=HeldTasks(
            _epochs(value.active_tasks, value.member_epoch),
            tasks_of(value.standby_tasks),
            tasks_of(value.warmup_tasks),
        ),
        pending_revocation=HeldTasks(
            _epochs(value.active_tasks_pending_revocation, value.member_epoch),
            tasks_of(value.standby_tasks_pending_revocation),
            tasks_of(value.warmup_tasks_pending_revocation),
        ),
    )


def _epochs(
    listed: Iterable[StreamsGroupCurrentMemberAssignmentTaskIds], member_epoch: int
) -> dict[StreamsTask, int]:
    """Records of Kafka before 4.3 have no epochs: the member epoch is used."""
    found: dict[StreamsTask, int] = {}
    for ids in listed:
        epochs = ids.assignment_epochs
        if epochs is None or len(epochs) != len(ids.partitions):
            epochs = [member_epoch] * len(ids.partitions)
        found.update(
            (StreamsTask(ids.subtopology_id, index), epoch)
            for index, epoch in zip(ids.partitions, epochs, strict=True)
        )
    return found


def target_of(value: StreamsGroupTargetAssignmentMemberValue) -> StreamsTasks:
    return StreamsTasks(
        tasks_of(value.active_tasks), tasks_of(value.standby_tasks), tasks_of(value.warmup_tasks)
    )


# -- tombstones -------------------------------------------------------------------------------------


def group_tombstones(group_id: str, member_ids: Iterable[str] = ()) -> list[CoordinatorRecord]:
    return [
        *(record for member_id in member_ids for record in member_tombstones(group_id, member_id)),
        tombstone(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        tombstone(StreamsGroupMetadataKey(group_id=group_id)),
        tombstone(StreamsGroupTopologyKey(group_id=group_id)),
    ]
