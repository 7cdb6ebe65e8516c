"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

They see their member epoch as a generation. When their assignment has to change, a heartbeat answers
REBALANCE_IN_PROGRESS; they rejoin with the partitions they own and are answered immediately.
"""

from __future__ import annotations

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import new_uuid, uuid_to_text
from barnabas.groups.assigning import Assigning
from barnabas.groups.classic.member import JoinRequest
from barnabas.groups.classic.membership import FIRST_VERSION_WITH_TWO_STEPS
from barnabas.groups.consumer.advance import Advance
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.heartbeats import check_instance, replace_static
from barnabas.groups.consumer.leaving import Leaving
from barnabas.groups.consumer.member import (
    NO_PATTERN,
    ClassicMember,
    ConsumerMember,
    MemberState,
    without_epochs,
)
from barnabas.groups.consumer.migration import (
    DISABLED,
    EmbeddedError,
    Migration,
    read_subscription,
    version_of,
    write_assignment,
)
from barnabas.groups.consumer.reconciliation import Reported
from barnabas.groups.consumer.records import member_record
from barnabas.groups.consumer.resolving import Resolving
from barnabas.groups.group import UNKNOWN_MEMBER, DeadlineType, GroupDeadline
from barnabas.groups.manager import GroupManager, check_room_for_all
from barnabas.groups.modern import Assignment
from barnabas.groups.results import GroupResult, join_error
from barnabas.protocol.messages.consumer import CONSUMER_PROTOCOL, ConsumerProtocolSubscription
from barnabas.protocol.messages.groups import (
    JoinGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


class ClassicMembers:
    def __init__(
        self,
        kind: GroupManager[ConsumerGroup],
        migration: Migration,
        leaving: Leaving,
        resolving: Resolving,
        assigning: Assigning[ConsumerGroup, Assignment],
    ) -> None:
        self._kind = kind
        self._assigning = assigning
        self._context = kind.context
        self._migration = migration
        self._leaving = leaving
        self._resolving = resolving

    # -- joining ------------------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, joining: JoinRequest, result: GroupResult) -> None:
        request = joining.request
        member_id = request.member_id or uuid_to_text(new_uuid())
        self._check_join(group, joining, member_id)
        needs_id = joining.version >= FIRST_VERSION_WITH_TWO_STEPS and request.group_instance_id is None
        if request.member_id == UNKNOWN_MEMBER and needs_id:
            result.response = join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED)
            return
        subscription = self._subscription(joining)
        self._context.ledger.check_topics(len(subscription.topics))
        replaced = group.static_member(request.group_instance_id)
        before = self._before(group, joining, member_id, result)
        described = _described(before, joining, subscription)
        if described is not before:
            result.records.append(member_record(group.group_id, described))
        advance = Advance(self._context, group, before, described, result)
        resubscribed = self._update_epoch(group, joining, before, advance, result)
        owned = self._owned(subscription)
        if self._migration.can_go_back_with(group, replaced):
            after = self._go_back(group, advance, owned, resubscribed, result)
        else:
            after = self._stay(group, joining, advance, owned, resubscribed)
        result.response = _join_response(after)

    def _check_join(self, group: ConsumerGroup, joining: JoinRequest, member_id: str) -> None:
        settings, request = self._context.settings, joining.request
        if settings.migration_policy == DISABLED:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
                "migration is disabled.",
            )
        check_room_for_all(self._context, group, member_id)
        if len(group.members) >= settings.consumer_max_size and member_id not in group.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.supports(request.protocol_type, [one.name for one in request.protocols]):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported."
            )

    def _subscription(self, joining: JoinRequest) -> ConsumerProtocolSubscription:
        try:
            return read_subscription(joining.request.protocols[0].metadata)
        except EmbeddedError as error:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the subscription cannot be read: {error}"
            ) from None

    def _before(
        self, group: ConsumerGroup, joining: JoinRequest, member_id: str, result: GroupResult
    ) -> ConsumerMember:
        instance_id = joining.request.group_instance_id
        if instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id=member_id)
        known = group.static_member(instance_id)
        if joining.request.member_id != UNKNOWN_MEMBER:
            return check_instance(group, member_id, instance_id)
        if known is None:
            return ConsumerMember(member_id=member_id)
        return replace_static(group, known, member_id, result)

    def _update_epoch(
        self,
        group: ConsumerGroup,
        joining: JoinRequest,
        before: ConsumerMember,
        advance: Advance,
        result: GroupResult,
    ) -> bool:
        """True if the member's subscription has changed."""
        described = advance.after
        pattern = self._resolving.update(group, before, described, joining.client, result)
        names_changed = described.subscribed_topic_names != before.subscribed_topic_names
        resubscribed = names_changed or pattern.has_changed
        reason = joining.because(f"{described.member_id} joined with the classic protocol")
        advance.update_epoch(reason if resubscribed else "")
        return resubscribed

    def _stay(
        self,
        group: ConsumerGroup,
        joining: JoinRequest,
        advance: Advance,
        owned: Reported,
        resubscribed: bool,
    ) -> ConsumerMember:
        if advance.needs_target:
            interval_ms = self._kind.assignment_interval_ms(group.group_id)
            advance.update_target(self._assigning, interval_ms)
        member = advance.reconcile(owned, subscription_changed=resubscribed)
        deadlines, group_id = self._context.deadlines, group.group_id
        deadlines.cancel(GroupDeadline(DeadlineType.JOIN, group_id, member.member_id))
        self._kind.expect_heartbeat(group_id, member.member_id, joining.timeouts.session_ms)
        deadlines.set(
            GroupDeadline(DeadlineType.SYNC, group_id, member.member_id), joining.timeouts.rebalance_ms
        )
        return member

    def _go_back(
        self,
        group: ConsumerGroup,
        advance: Advance,
        owned: Reported,
        resubscribed: bool,
        result: GroupResult,
    ) -> ConsumerMember:
        """It replaces the last member of the new protocol: downgrade the group to a classic one."""
        rebalance = advance.needs_target
        member = advance.after
        if not rebalance:
            member = advance.reconcile(owned, subscription_changed=resubscribed)
        reason = "the last consumer member was replaced"
        self._migration.go_back(group, result, reason, joining=member, rebalance=rebalance)
        return member

    def _owned(self, subscription: ConsumerProtocolSubscription) -> Reported:
        found = (
            (self._context.topics.find(one.topic), one.partitions) for one in subscription.owned_partitions
        )
        return [(topic.topic_id, indexes) for topic, indexes in found if topic is not None]

    # -- sync and heartbeat -------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        member, classic = self._member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        _check_protocol(member, classic, request)
        if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED:
            self._expect_join(group, member)
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should "
                "rejoin to catch up.",
            )
        self._context.deadlines.cancel(GroupDeadline(DeadlineType.SYNC, group.group_id, member.member_id))
        self._kind.expect_heartbeat(group.group_id, member.member_id, classic.session_ms)
        version = version_of(classic.protocol.metadata)
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(without_epochs(member.owned), self._context.topics, version),
        )

    def heartbeat(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        member, classic = self._member(group, member_id, instance_id)
        _check_generation(member, generation)
        self._kind.expect_heartbeat(group.group_id, member_id, classic.session_ms)
        can_move = member.state is MemberState.UNRELEASED and not group.waits_for_release(member)
        if member.member_epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED or can_move:
            self._expect_join(group, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        deadline = GroupDeadline(DeadlineType.JOIN, group.group_id, member.member_id)
        if deadline not in self._context.deadlines:
            self._context.deadlines.set(deadline, member.rebalance_ms)

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerMember, ClassicMember]:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = check_instance(group, member_id, instance_id)
        if member.classic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol."
            )
        return member, member.classic

    # -- leaving ------------------------------------------------------------------------------------

    def leave(
        self, group: ConsumerGroup, leavers: list[MemberIdentity], result: GroupResult
    ) -> list[MemberResponse]:
        removed_topics: dict[str, ConsumerMember] = {}
        responses = []
        for leaver in leavers:
            response = MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id)
            try:
                member = _leaver(group, leaver)
                removed_topics[member.member_id] = member
            except KafkaError as error:
                response.error_code = error.code
            responses.append(response)
        names = ", ".join(removed_topics)
        self._leaving.fence(group, list(removed_topics.values()), f"{names} left", result)
        return responses


def _leaver(group: ConsumerGroup, leaver: MemberIdentity) -> ConsumerMember:
    """Resolve a static member that administrators name by its instance id only."""
    if leaver.group_instance_id is None:
        return group.member(leaver.member_id)
    if leaver.member_id != UNKNOWN_MEMBER:
        return check_instance(group, leaver.member_id, leaver.group_instance_id)
    member = group.static_member(leaver.group_instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _described(
    member: ConsumerMember, joining: JoinRequest, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    request = joining.request
    return member.changed(
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_ms=joining.timeouts.rebalance_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        pattern=NO_PATTERN,
        client=joining.client,
        classic=ClassicMember(request.session_timeout_ms, tuple(joining.protocols)),
    )


def _join_response(member: ConsumerMember) -> JoinGroupResponse:
    """Response without a leader: the coordinator assigns."""
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=member.classic.protocol.name,
    )


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if member.member_epoch != generation:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} of "
            f"member {member.member_id}.",
        )


def _check_protocol(member: ConsumerMember, classic: ClassicMember, request: SyncGroupRequest) -> None:
    if request.protocol_type not in (None, CONSUMER_PROTOCOL):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol type {request.protocol_type} from member {member.member_id} request is not equal to "
            f"the group protocol type {CONSUMER_PROTOCOL}.",
        )
    if request.protocol_name not in (None, classic.protocol.name):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol name {request.protocol_name} from member {member.member_id} request is not equal to "
            f"the protocol name {classic.protocol.name} returned in the join response.",
        )
