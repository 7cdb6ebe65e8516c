"""Group administration: ListGroups 0 to 5, DescribeGroups 0 to 6, DeleteGroups 0 to 3,
OffsetDelete 0.

- ListGroups filters by state since version 4 (KIP-518), by type since version 5 (KIP-848).
- DescribeGroups returns Dead for an unknown group; since version 6 (KIP-1043) with GROUP_ID_NOT_FOUND.
- DeleteGroups has an error message since version 3 (KIP-1331).
- Member metadata is returned for stable groups only, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.coordination import CoordinatorResult, ask_each
from barnabas.groups import Group, GroupCoordinator, GroupShard
from barnabas.groups.classic import ClassicGroup, ClassicGroupMember, ClassicGroupState
from barnabas.groups.share import ShareStates
from barnabas.handlers.endpoints import ALL_OF_GROUP, NOT_ASKED_FOR
from barnabas.handlers.needs import HasImage
from barnabas.network.requests import Result, run_or_continue_in_slices
from barnabas.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.protocol.wire import STEP

if TYPE_CHECKING:
    from barnabas.network.requests import Request

FIRST_DESCRIBE_WITH_NOT_FOUND = 6


class GroupAdminCoordinators(Protocol):
    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def share_states(self) -> ShareStates: ...


class GroupAdminNeeds(HasImage, Protocol):
    """Broker attributes used by group administration."""

    @property
    def coordinators(self) -> GroupAdminCoordinators: ...


def list_groups(
    broker: GroupAdminNeeds, request: Request, message: ListGroupsRequest
) -> Result[ListGroupsResponse]:
    try:
        groups = broker.coordinators.groups.all_groups()
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    return run_or_continue_in_slices(request, _listing(groups, message))


def _listing(groups: list[Group], message: ListGroupsRequest) -> Generator[None, None, ListGroupsResponse]:
    states = {state.lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    listed = []
    for number, group in enumerate(groups, 1):
        if (not states or group.state_name.lower() in states) and (
            not types or group.group_type.value in types
        ):
            listed.append(_listed(group))
        if not number % STEP:
            yield
    return ListGroupsResponse(groups=listed)


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state_name,
        group_type=group.group_type.value,
    )


# -- DescribeGroups -------------------------------------------------------------------------------------


def describe_groups(
    broker: GroupAdminNeeds, request: Request, message: DescribeGroupsRequest
) -> DescribeGroupsResponse | None:
    operations = ALL_OF_GROUP if message.include_authorized_operations else NOT_ASKED_FOR

    def finish(described: list[DescribedGroup]) -> None:
        for group in described:
            group.authorized_operations = NOT_ASKED_FOR if group.error_code else operations
        request.respond(DescribeGroupsResponse(groups=described))

    def describe(group_id: str, done: Callable[[DescribedGroup], None]) -> None:
        _describe(broker, group_id, request.version, done)

    ask_each(message.groups, describe, finish)
    return None


def _describe(
    broker: GroupAdminNeeds, group_id: str, version: int, done: Callable[[DescribedGroup], None]
) -> None:
    def answered(outcome: DescribedGroup | KafkaError) -> None:
        done(_undescribed(group_id, outcome, version) if isinstance(outcome, KafkaError) else outcome)

    broker.coordinators.groups.read(
        group_id, lambda shard: _described(shard.classic.find(group_id)), answered
    )


def _undescribed(group_id: str, error: KafkaError, version: int) -> DescribedGroup:
    if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    answer = DescribedGroup(group_id=group_id, group_state=ClassicGroupState.DEAD.value)
    if version >= FIRST_DESCRIBE_WITH_NOT_FOUND:
        answer.error_code, answer.error_message = error.code, error.message
    return answer


def _described(group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is ClassicGroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[_described_member(group, member, is_stable) for member in group.members.values()],
    )


def _described_member(
    group: ClassicGroup, member: ClassicGroupMember, is_stable: bool
) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        member_metadata=member.metadata(group.protocol) if is_stable else b"",
        member_assignment=member.assignment,
    )


# -- DeleteGroups ---------------------------------------------------------------------------------------


def delete_groups(
    broker: GroupAdminNeeds, request: Request, message: DeleteGroupsRequest
) -> DeleteGroupsResponse | None:
    def finish(results: list[DeletableGroupResult]) -> None:
        request.respond(DeleteGroupsResponse(results=results))

    names = list(dict.fromkeys(message.groups_names))
    ask_each(names, partial(_delete, broker), finish)
    return None


def _delete(broker: GroupAdminNeeds, group_id: str, done: Callable[[DeletableGroupResult], None]) -> None:
    def finished(error: KafkaError | None) -> None:
        code = ErrorCode.NONE if error is None else error.code
        reason = None if error is None else error.message or None
        done(DeletableGroupResult(group_id=group_id, error_code=code, error_message=reason))

    def without_state(error: ErrorCode) -> None:
        if error:
            finished(KafkaError(error, f"The state of share group {group_id} could not be deleted; retry."))
        else:
            broker.coordinators.groups.write(group_id, lambda shard: shard.delete_group(group_id), finished)

    broker.coordinators.share_states.delete_all(group_id, without_state)


# -- OffsetDelete ---------------------------------------------------------------------------------------


def offset_delete(
    broker: GroupAdminNeeds, request: Request, message: OffsetDeleteRequest
) -> OffsetDeleteResponse | None:
    if not message.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)

    def done(outcome: OffsetDeleteResponse | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            outcome = OffsetDeleteResponse(error_code=outcome.code)
        request.respond(outcome)

    handle = partial(_delete_offsets, broker.image, message)
    broker.coordinators.groups.write(message.group_id, handle, done)
    return None


def _delete_offsets(
    image: MetadataImage, message: OffsetDeleteRequest, shard: GroupShard
) -> CoordinatorResult[OffsetDeleteResponse]:
    group = shard.find(message.group_id)
    group.check_offset_deletion()
    result = CoordinatorResult(OffsetDeleteResponse())
    for topic in message.topics:
        answer = OffsetDeleteResponseTopic(name=topic.name)
        result.response.topics.append(answer)
        for partition in topic.partitions:
            index = partition.partition_index
            if image.partition(topic.name, index) is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                error = shard.delete_offset(group, TopicPartition(topic.name, index), result)
            answer.partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
    return result
