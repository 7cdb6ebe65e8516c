"""ShareGroupHeartbeat: members join, stay and leave, all with the same request."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.kind import GroupKind, check_room_for_all, check_subscription
from barnabas.groups.members import Client
from barnabas.groups.modern import JOINING, LEAVING, Assignment, may_assign
from barnabas.groups.share.assignor import assign
from barnabas.groups.share.group import ShareGroup
from barnabas.groups.share.member import ShareMember
from barnabas.groups.share.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    state_partitions_record,
    target_epoch_record,
    target_record,
)
from barnabas.groups.share.state_partitions import Partitions
from barnabas.groups.step import Respond, Step
from barnabas.protocol.messages.share import (
    ShareGroupHeartbeatAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatTopicPartitions,
)
from barnabas.types import Uuid

SOONEST_RETURN_MS = 100

WithoutState = Callable[[int, Partitions], None]
"""Told which partitions need state before they can be assigned, and the state epoch to begin with."""


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """What can be said of a request without knowing the group."""
    if not request.member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if request.rack_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
    if request.member_epoch == JOINING:
        if not request.subscribed_topic_names:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEAVING:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


class Heartbeats:
    def __init__(self, kind: GroupKind[ShareGroup]) -> None:
        self._kind = kind
        self._context = kind.context
        self.begun_ms: dict[tuple[str, Uuid], int] = {}
        """When we have begun to create state, in memory only: whoever coordinates after us begins again."""

    def handle(
        self,
        request: ShareGroupHeartbeatRequest,
        client: Client,
        respond: Respond,
        step: Step,
        without_state: WithoutState,
    ) -> None:
        if request.member_epoch == LEAVING:
            self._leave(request, respond, step)
        else:
            self._stay(request, client, respond, step, without_state)

    # -- joining and staying ------------------------------------------------------------------------

    def _stay(
        self,
        request: ShareGroupHeartbeatRequest,
        client: Client,
        respond: Respond,
        step: Step,
        without_state: WithoutState,
    ) -> None:
        group = self._find(request.group_id, create=request.member_epoch == JOINING)
        self._check_room(group, request.member_id)
        before = self._member(group, request)
        member = _described(before, request, client)
        resubscribed = member.subscribed_topic_names != before.subscribed_topic_names
        if resubscribed:
            check_subscription(self._context, group.members.values(), member)
        if member is not before:
            step.records.append(member_record(group.group_id, member))
        names = _subscribed(group, before, member)
        missing = self._without_state(group, names)
        epoch = self._next_epoch(group, member, names, resubscribed, step)
        if missing:
            for topic in missing:
                self.begun_ms[group.group_id, topic] = self._context.clock.now_ms()
            step.records.append(state_partitions_record(group.group_id, group.states.begun(missing)))
            without_state(epoch, missing)
        assigned_epoch, target = self._next_target(
            group, member, epoch, step, nothing_yet=bool(missing) and not group.assignable(names)
        )
        after = self._reconciled(group, member, assigned_epoch, target, resubscribed, step)
        self._kind.expect_heartbeat(group.group_id, member.member_id)
        response = self._response(request, before, after)
        if epoch > assigned_epoch and not missing:
            response.heartbeat_interval_ms = self._until_assignment(group)
        step.answer(respond, response)

    def _until_assignment(self, group: ShareGroup) -> int:
        """A member that has to wait for the next assignment may come back for it before its usual time."""
        usual, shortest = self._kind.heartbeat_interval_ms(group.group_id), SOONEST_RETURN_MS
        due_ms = group.assigned_at_ms + self._kind.assignment_interval_ms(group.group_id)
        return min(usual, max(shortest, due_ms - self._context.clock.now_ms()))

    def _find(self, group_id: str, *, create: bool) -> ShareGroup:
        group = self._context.groups.get(group_id)
        if group is None:
            if not create:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
            return ShareGroup(group_id)
        return self._kind.find(group_id)

    def _check_room(self, group: ShareGroup, member_id: str) -> None:
        check_room_for_all(self._context, group, member_id)
        largest = self._context.settings.share_max_size
        if len(group.members) >= largest and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {largest} members.",
            )

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        if request.member_epoch == JOINING and request.member_id not in group.members:
            return ShareMember(member_id=request.member_id)
        member = group.member(request.member_id)
        received, known = request.member_epoch, member.member_epoch
        if received > known and received != JOINING:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The share group member has a greater member epoch ({received}) than the one known by the group "
                f"coordinator ({known}). The member must abandon all its partitions and rejoin.",
            )
        if received not in (JOINING, known, member.previous_member_epoch):
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The share group member has a smaller member epoch ({received}) than the one known by the group "
                f"coordinator ({known}), and it does not match the previous member epoch "
                f"({member.previous_member_epoch}). The member must abandon all its partitions and rejoin.",
            )
        return member

    def _without_state(self, group: ShareGroup, names: frozenset[str]) -> Partitions:
        now_ms = self._context.clock.now_ms()
        oldest = now_ms - self._context.settings.share_initialize_retry_ms

        def is_begun(topic: Uuid) -> bool:  # and not later than now, before the clock was set back
            return oldest < self.begun_ms.get((group.group_id, topic), oldest) <= now_ms

        return group.without_state(self._context.topics, names, is_begun)

    def _next_epoch(
        self,
        group: ShareGroup,
        member: ShareMember,
        names: frozenset[str],
        resubscribed: bool,
        step: Step,
    ) -> int:
        """The group epoch, raised if the present assignment does not do any more."""
        reason = ""
        if resubscribed:
            word = "changed its subscription" if member.member_id in group.members else "joined"
            reason = f"{member.member_id} {word}"
        elif group.assignment_epoch >= group.epoch and group.has_unassigned:
            reason = "partitions are ready to be read"
        if not reason and not group.topics_may_have_changed:
            return group.epoch
        metadata_hash = self._context.topics.hash_of(names)
        if not reason and metadata_hash == group.metadata_hash:
            group.topics_may_have_changed = False
            return group.epoch
        reason = reason or "the subscribed topics changed"
        step.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash, reason))
        return group.epoch + 1

    def _next_target(
        self, group: ShareGroup, member: ShareMember, epoch: int, step: Step, *, nothing_yet: bool
    ) -> tuple[int, Assignment]:
        """The assignment epoch, and what the member shall read."""
        present = group.targets.get(member.member_id, {})
        interval_ms = self._kind.assignment_interval_ms(group.group_id)
        now_ms = self._context.clock.now_ms()
        if epoch <= group.assignment_epoch or nothing_yet or not may_assign(group, interval_ms, now_ms):
            return group.assignment_epoch, present
        members = {**group.members, member.member_id: member}
        ids = {names: self._context.topics.ids(names) for names in _subscriptions(members.values())}
        subscriptions = {one.member_id: ids[one.subscribed_topic_names] for one in members.values()}
        names: frozenset[str] = frozenset().union(*ids)
        targets = assign(subscriptions, group.assignable(names), group.targets)
        step.records += [
            target_record(group.group_id, member_id, target)
            for member_id, target in targets.items()
            if target != group.targets.get(member_id)
        ]
        step.records.append(target_epoch_record(group.group_id, epoch, now_ms))
        return epoch, targets[member.member_id]

    def _reconciled(
        self,
        group: ShareGroup,
        member: ShareMember,
        epoch: int,
        target: Assignment,
        resubscribed: bool,
        step: Step,
    ) -> ShareMember:
        """The member takes over its target at once; what it no longer subscribes to it has no more."""
        if member.is_reconciled_to(epoch) and not resubscribed:
            return member
        subscribed = self._context.topics.ids(member.subscribed_topic_names)
        wanted = target if not member.is_reconciled_to(epoch) else member.assigned
        assigned = {topic: indexes for topic, indexes in wanted.items() if topic in subscribed}
        after = member.changed(
            member_epoch=epoch, previous_member_epoch=member.member_epoch, assigned=assigned
        )
        if after is not member:
            step.records.append(current_record(group.group_id, after))
        return after

    def _response(
        self, request: ShareGroupHeartbeatRequest, before: ShareMember, after: ShareMember
    ) -> ShareGroupHeartbeatResponse:
        """The assignment is told when it has changed, or when the member has forgotten it."""
        tell = request.subscribed_topic_names is not None or before.assigned != after.assigned
        return ShareGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=self._kind.heartbeat_interval_ms(request.group_id),
            assignment=_told(after.assigned) if tell else None,
        )

    # -- leaving ------------------------------------------------------------------------------------

    def _leave(self, request: ShareGroupHeartbeatRequest, respond: Respond, step: Step) -> None:
        group = self._kind.find(request.group_id)
        member = group.member(request.member_id)
        self.fence(group, member, f"{member.member_id} left", step)
        step.answer(
            respond,
            ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch),
        )

    def fence(self, group: ShareGroup, member: ShareMember, reason: str, step: Step) -> None:
        """Remove a member; the others share what it read as soon as they send their next heartbeats."""
        step.records += member_tombstones(group.group_id, member.member_id)
        names = _subscribed(group, member, ShareMember(member_id=member.member_id))
        metadata_hash = self._context.topics.hash_of(names)
        step.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash, reason))
        self._kind.expect_nothing(group.group_id, member.member_id)


def _subscribed(group: ShareGroup, before: ShareMember, after: ShareMember) -> frozenset[str]:
    """All topics that members subscribe to, once one of them has changed."""
    if before.subscribed_topic_names == after.subscribed_topic_names:
        return frozenset(group.subscribed_topics())
    others = (member for member in group.members.values() if member.member_id != after.member_id)
    return after.subscribed_topic_names.union(*_subscriptions(others))


def _subscriptions(members: Iterable[ShareMember]) -> set[frozenset[str]]:
    """All that are different: most members of a group subscribe alike, perhaps to thousands of topics."""
    return {member.subscribed_topic_names for member in members}


def _described(member: ShareMember, request: ShareGroupHeartbeatRequest, client: Client) -> ShareMember:
    """With what the request says; what it does not mention stays."""
    told: dict[str, object] = {"client": client}
    if request.rack_id is not None:
        told["rack_id"] = request.rack_id
    if request.subscribed_topic_names is not None:
        told["subscribed_topic_names"] = frozenset(request.subscribed_topic_names)
    return member.changed(**told)


def _told(assigned: Assignment) -> ShareGroupHeartbeatAssignment:
    return ShareGroupHeartbeatAssignment(
        topic_partitions=[
            ShareGroupHeartbeatTopicPartitions(topic_id=topic, partitions=sorted(indexes))
            for topic, indexes in assigned.items()
        ]
    )
