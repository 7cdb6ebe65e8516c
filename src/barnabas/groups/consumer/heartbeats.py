"""ConsumerGroupHeartbeat: joining, staying in and leaving a group."""

from __future__ import annotations

from typing import Any

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import new_uuid, uuid_to_text
from barnabas.coordination import CoordinatorResult
from barnabas.groups.assigning import Assigning
from barnabas.groups.consumer.advance import Advance
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.leaving import Leaving
from barnabas.groups.consumer.member import ConsumerMember, Owned, contains_all
from barnabas.groups.consumer.migration import Migration
from barnabas.groups.consumer.reconciliation import Reported
from barnabas.groups.consumer.records import current_record, member_record, member_tombstones, target_record
from barnabas.groups.consumer.resolving import Resolving
from barnabas.groups.group import ClientInfo
from barnabas.groups.manager import GroupManager, check_room_for_all, check_size
from barnabas.groups.modern import JOINING, LEAVING, LEAVING_FOR_A_WHILE, Assignment, check_member_epoch
from barnabas.groups.results import GroupResult
from barnabas.protocol.messages.consumer import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

UNCHANGED = -1

WHILE_ASSIGNING_MS = 1000
"""Heartbeat interval of a member of a large group while its target is being computed."""


class ConsumerHeartbeats:
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

    def handle(
        self, request: ConsumerGroupHeartbeatRequest, client: ClientInfo
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        if request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            return self._leave(request)
        result: CoordinatorResult[Any] = CoordinatorResult(None)
        result.response = self._stay(request, client, result)
        return result

    # -- joining and staying ------------------------------------------------------------------------

    def _stay(
        self, request: ConsumerGroupHeartbeatRequest, client: ClientInfo, result: GroupResult
    ) -> ConsumerGroupHeartbeatResponse:
        group_id, joins = request.group_id, request.member_epoch == JOINING
        group = self._migration.find_or_convert(group_id, result, create=joins)
        if request.member_id not in group.members:
            check_room_for_all(self._context, group, request.member_id)
            check_size("consumer", group, request.member_id, self._context.settings.consumer_max_size)
        if request.subscribed_topic_names is not None:
            self._context.ledger.check_topics(len(request.subscribed_topic_names))
        member_id = request.member_id or uuid_to_text(new_uuid())
        reported = reported_by(request)
        if request.instance_id is None:
            before = self._dynamic(group, member_id, request.member_epoch, reported)
        else:
            before = self._static(
                group, member_id, request.instance_id, request.member_epoch, reported, result
            )
        described = _described(before, request, client)
        if described is not before:
            result.records.append(member_record(group_id, described))
        advance = Advance(self._context, group, before, described, result)
        names_changed = described.subscribed_topic_names != before.subscribed_topic_names
        pattern = self._resolving.update(group, before, described, client, result)
        resubscribed = names_changed or pattern.has_changed
        advance.update_epoch(_reason(before, described, client, names_changed or pattern.counts_now))
        if advance.needs_target:
            interval_ms = self._kind.assignment_interval_ms(group_id)
            advance.update_target(self._assigning, interval_ms)
        after = advance.reconcile(reported, subscription_changed=resubscribed)
        self._kind.expect_heartbeat(group_id, member_id)
        response = self._response(request, before, after)
        if self._assigning.is_running(group_id):
            response.heartbeat_interval_ms = min(response.heartbeat_interval_ms, WHILE_ASSIGNING_MS)
        return response

    def _dynamic(
        self, group: ConsumerGroup, member_id: str, epoch: int, reported: Reported | None
    ) -> ConsumerMember:
        if epoch == JOINING and member_id not in group.members:
            return ConsumerMember(member_id=member_id)
        member = group.member(member_id)
        check_epoch(member, epoch, reported)
        return member

    def _static(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str,
        epoch: int,
        reported: Reported | None,
        result: GroupResult,
    ) -> ConsumerMember:
        known = group.static_member(instance_id)
        if epoch == JOINING:
            if known is None:
                return group.members.get(member_id) or ConsumerMember(member_id=member_id)
            if known.classic is None and known.member_epoch != LEAVING_FOR_A_WHILE:
                raise KafkaError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance_id} cannot join the group because "
                    f"the instance id is owned by {known.member_id} member.",
                )
            return replace_static(group, known, member_id, result)
        member = check_instance(group, member_id, instance_id)
        check_epoch(member, epoch, reported)
        return member

    def _response(
        self, request: ConsumerGroupHeartbeatRequest, before: ConsumerMember, after: ConsumerMember
    ) -> ConsumerGroupHeartbeatResponse:
        """Include the assignment if it has changed, or if the member does not know it."""
        is_full = (
            request.rebalance_timeout_ms != UNCHANGED
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        tell = request.member_epoch == JOINING or is_full or before.owned != after.owned
        return ConsumerGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=self._kind.heartbeat_interval_ms(request.group_id),
            assignment=_told(after.owned) if tell else None,
        )

    # -- leaving ------------------------------------------------------------------------------------

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        group = self._kind.find(request.group_id)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = check_instance(group, request.member_id, request.instance_id)
        result = CoordinatorResult(
            ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        )
        if request.instance_id is not None and request.member_epoch == LEAVING_FOR_A_WHILE:
            result.records.append(current_record(group.group_id, _away(member)))
        else:
            self._leaving.fence(group, [member], f"{member.member_id} left", result)
        return result


def reported_by(request: ConsumerGroupHeartbeatRequest) -> Reported | None:
    if request.topic_partitions is None:
        return None
    return [(one.topic_id, one.partitions) for one in request.topic_partitions]


def check_epoch(member: ConsumerMember, received: int, reported: Reported | None) -> None:
    """Fence an outdated member, unless it missed our last response and owns only the partitions of that."""
    may_repeat = reported is not None and contains_all(member.owned, reported)
    check_member_epoch("consumer", member, received, may_repeat=may_repeat)


def check_instance(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the static member if it has this member id."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def replace_static(
    group: ConsumerGroup, known: ConsumerMember, member_id: str, result: GroupResult
) -> ConsumerMember:
    """Replace the process behind an instance id; the new one takes over its partitions."""
    member = known.changed(member_id=member_id, member_epoch=JOINING, previous_member_epoch=JOINING)
    result.records += member_tombstones(group.group_id, known.member_id)
    result.records += [
        member_record(group.group_id, member),
        target_record(group.group_id, member_id, group.targets.get(known.member_id, {})),
        current_record(group.group_id, member),
    ]
    return member


def _described(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: ClientInfo
) -> ConsumerMember:
    """The member with the fields of the request; omitted fields are unchanged."""
    stored: dict[str, object] = {"client": client, "classic": None}
    if request.instance_id is not None:
        stored["instance_id"] = request.instance_id
    if request.rack_id is not None:
        stored["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != UNCHANGED:
        stored["rebalance_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        stored["assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        stored["subscribed_topic_names"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        stored["pattern"] = request.subscribed_topic_regex
    return member.changed(**stored)


def _reason(before: ConsumerMember, after: ConsumerMember, client: ClientInfo, resubscribed: bool) -> str:
    if not resubscribed:
        return ""
    is_new = not before.client.host
    return f"{after.member_id} {f'joined from {client.host}' if is_new else 'changed its subscription'}"


def _away(member: ConsumerMember) -> ConsumerMember:
    """A static member that leaves temporarily keeps its partitions, and any member may commit them."""
    zero = {topic: dict.fromkeys(indexes, 0) for topic, indexes in member.owned.items()}
    return member.changed(member_epoch=LEAVING_FOR_A_WHILE, owned=zero, revoking={})


def _told(owned: Owned) -> ConsumerGroupHeartbeatAssignment:
    return ConsumerGroupHeartbeatAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic, partitions=sorted(indexes))
            for topic, indexes in owned.items()
        ]
    )
