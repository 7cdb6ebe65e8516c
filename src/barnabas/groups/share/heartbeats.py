"""ShareGroupHeartbeat: joining, staying in and leaving a group."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from barnabas.common.cooperative import Steps, finish
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.coordination import CoordinatorResult
from barnabas.groups.assigning import LARGE, Assigning, TargetAssignments
from barnabas.groups.group import ClientInfo
from barnabas.groups.manager import GroupManager, check_room_for_all, check_size
from barnabas.groups.modern import JOINING, LEAVING, Assignment, check_member_epoch, may_assign
from barnabas.groups.results import GroupResult
from barnabas.groups.share.assignor import assign_steps
from barnabas.groups.share.group import ShareGroup, assignable
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
from barnabas.groups.share.state_partitions import Partitions, StatePartitions
from barnabas.protocol.messages.share import (
    ShareGroupHeartbeatAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatTopicPartitions,
)

SOONEST_RETURN_MS = 100


class ShareHeartbeatResult:
    """The response, and the partitions that need state before they can be assigned."""

    __slots__ = ("missing", "response", "state_epoch")

    def __init__(self, response: ShareGroupHeartbeatResponse, missing: Partitions, state_epoch: int) -> None:
        self.response = response
        self.missing = missing
        self.state_epoch = state_epoch


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Validate a request, independent of the group."""
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


class ShareHeartbeats:
    def __init__(self, kind: GroupManager[ShareGroup]) -> None:
        self._kind = kind
        self._context = kind.context
        targets = TargetAssignments(
            ShareGroup,
            lambda group: self._compute(dict(group.members), group.states, dict(group.targets)),
            target_record,
            target_epoch_record,
        )
        self._assigning = Assigning(self._context, targets)
        self.begun_ms: dict[tuple[str, Uuid], int] = {}
        """Start times of state creation, in memory only: the next coordinator starts again."""

    def handle(
        self, request: ShareGroupHeartbeatRequest, client: ClientInfo
    ) -> CoordinatorResult[ShareHeartbeatResult]:
        if request.member_epoch == LEAVING:
            return self._leave(request)
        result: CoordinatorResult[Any] = CoordinatorResult(None)
        result.response = self._stay(request, client, result)
        return result

    # -- joining and staying ------------------------------------------------------------------------

    def _stay(
        self, request: ShareGroupHeartbeatRequest, client: ClientInfo, result: GroupResult
    ) -> ShareHeartbeatResult:
        group = self._find(request.group_id, create=request.member_epoch == JOINING)
        check_room_for_all(self._context, group, request.member_id)
        check_size("share", group, request.member_id, self._context.settings.share_max_size)
        self._context.ledger.check_topics(len(request.subscribed_topic_names or ()))
        before = self._member(group, request)
        member = _described(before, request, client)
        if member is not before:
            result.records.append(member_record(group.group_id, member))
        resubscribed = member.subscribed_topic_names != before.subscribed_topic_names
        names = _subscribed(group, before, member)
        missing = self._without_state(group, names)
        epoch = self._next_epoch(group, member, names, resubscribed, result)
        if missing:
            for topic in missing:
                self.begun_ms[group.group_id, topic] = self._context.clock.now_ms()
            result.records.append(state_partitions_record(group.group_id, group.states.begun(missing)))
        assigned_epoch, target = self._next_target(
            group, member, epoch, result, nothing_yet=bool(missing) and not group.assignable(names)
        )
        after = self._reconciled(group, member, assigned_epoch, target, resubscribed, result)
        self._kind.expect_heartbeat(group.group_id, member.member_id)
        response = self._response(request, before, after)
        if epoch > assigned_epoch and not missing:
            response.heartbeat_interval_ms = self._until_assignment(group)
        return ShareHeartbeatResult(response, missing, epoch)

    def _until_assignment(self, group: ShareGroup) -> int:
        """Shorter heartbeat interval of a member that waits for the next assignment."""
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

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        if request.member_epoch == JOINING and request.member_id not in group.members:
            return ShareMember(member_id=request.member_id)
        member = group.member(request.member_id)
        check_member_epoch("share", member, request.member_epoch, may_repeat=True, tells_previous=True)
        return member

    def _without_state(self, group: ShareGroup, names: frozenset[str]) -> Partitions:
        now_ms = self._context.clock.now_ms()
        oldest = now_ms - self._context.settings.share_initialize_retry_ms

        def is_begun(topic: Uuid) -> bool:  # and not in the future, in case the clock was set back
            return oldest < self.begun_ms.get((group.group_id, topic), oldest) <= now_ms

        return group.without_state(self._context.topics, names, is_begun)

    def _next_epoch(
        self,
        group: ShareGroup,
        member: ShareMember,
        names: frozenset[str],
        resubscribed: bool,
        result: GroupResult,
    ) -> int:
        """The group epoch, bumped if the current assignment is outdated."""
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
        result.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash, reason))
        return group.epoch + 1

    def _next_target(
        self,
        group: ShareGroup,
        member: ShareMember,
        epoch: int,
        result: GroupResult,
        *,
        nothing_yet: bool,
    ) -> tuple[int, Assignment]:
        """The assignment epoch and the member's target."""
        present = group.targets.get(member.member_id, {})
        interval_ms = self._kind.assignment_interval_ms(group.group_id)
        now_ms = self._context.clock.now_ms()
        if epoch <= group.assignment_epoch or nothing_yet or not may_assign(group, interval_ms, now_ms):
            return group.assignment_epoch, present
        if self._is_large(group, member):
            self._assigning.start(group.group_id)
            return group.assignment_epoch, present
        members = {**group.members, member.member_id: member}
        targets = finish(self._compute(members, group.states, group.targets))
        result.records += [
            target_record(group.group_id, member_id, target)
            for member_id, target in targets.items()
            if target != group.targets.get(member_id)
        ]
        result.records.append(target_epoch_record(group.group_id, epoch, now_ms))
        return epoch, targets[member.member_id]

    def _is_large(self, group: ShareGroup, member: ShareMember) -> bool:
        """True if computing the target would take too long for a heartbeat."""
        work = len(group.members) + group.subscriptions.names + len(member.subscribed_topic_names)
        initialized = group.states.initialized
        if work + len(initialized) > LARGE:
            return True
        return work + sum(len(each.partitions) for each in initialized.values()) > LARGE

    def _compute(
        self,
        members: Mapping[str, ShareMember],
        states: StatePartitions,
        present: Mapping[str, Assignment],
    ) -> Steps[dict[str, Assignment]]:
        ids: dict[frozenset[str], Set[Uuid]] = {}
        shared: dict[Set[Uuid], Set[Uuid]] = {}
        subscriptions = {}
        names: set[str] = set()
        for member in members.values():
            wanted = member.subscribed_topic_names
            if wanted not in ids:
                found = self._context.topics.ids(wanted)
                ids[wanted] = shared.setdefault(found, found)
                names |= wanted
                yield
            subscriptions[member.member_id] = ids[wanted]
        return (yield from assign_steps(subscriptions, assignable(states, names), present))

    def _reconciled(
        self,
        group: ShareGroup,
        member: ShareMember,
        epoch: int,
        target: Assignment,
        resubscribed: bool,
        result: GroupResult,
    ) -> ShareMember:
        """The member adopts its target immediately and loses topics that it no longer subscribes to."""
        if member.is_reconciled_to(epoch) and not resubscribed:
            return member
        subscribed = self._context.topics.ids(member.subscribed_topic_names)
        wanted = target if not member.is_reconciled_to(epoch) else member.assigned
        assigned = {topic: indexes for topic, indexes in wanted.items() if topic in subscribed}
        after = member.changed(
            member_epoch=epoch, previous_member_epoch=member.member_epoch, assigned=assigned
        )
        if after is not member:
            result.records.append(current_record(group.group_id, after))
        return after

    def _response(
        self, request: ShareGroupHeartbeatRequest, before: ShareMember, after: ShareMember
    ) -> ShareGroupHeartbeatResponse:
        """Include the assignment if it has changed, or if the member does not know it."""
        tell = request.subscribed_topic_names is not None or before.assigned != after.assigned
        return ShareGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=self._kind.heartbeat_interval_ms(request.group_id),
            assignment=_told(after.assigned) if tell else None,
        )

    # -- leaving ------------------------------------------------------------------------------------

    def _leave(self, request: ShareGroupHeartbeatRequest) -> CoordinatorResult[ShareHeartbeatResult]:
        group = self._kind.find(request.group_id)
        member = group.member(request.member_id)
        response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        result = CoordinatorResult(ShareHeartbeatResult(response, {}, group.epoch))
        self.fence(group, member, f"{member.member_id} left", result)
        return result

    def fence(self, group: ShareGroup, member: ShareMember, reason: str, result: GroupResult) -> None:
        """Remove a member; the others take over its partitions with their next heartbeats."""
        result.records += member_tombstones(group.group_id, member.member_id)
        names = _subscribed(group, member, ShareMember(member_id=member.member_id))
        metadata_hash = self._context.topics.hash_of(names)
        result.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash, reason))
        self._kind.expect_nothing(group.group_id, member.member_id)
        result.revert = lambda: self._kind.expect_heartbeat(group.group_id, member.member_id)


def _subscribed(group: ShareGroup, before: ShareMember, after: ShareMember) -> frozenset[str]:
    """Subscribed topics of all members after one has changed."""
    if before.subscribed_topic_names == after.subscribed_topic_names:
        return frozenset(group.subscribed_topics())
    removed_topics = [before.subscribed_topic_names] if before.member_id in group.members else []
    return frozenset(group.subscriptions.topics_without(removed_topics, after.subscribed_topic_names))


def _described(member: ShareMember, request: ShareGroupHeartbeatRequest, client: ClientInfo) -> ShareMember:
    """The member with the fields of the request; omitted fields are unchanged."""
    stored: dict[str, object] = {"client": client}
    if request.rack_id is not None:
        stored["rack_id"] = request.rack_id
    if request.subscribed_topic_names is not None:
        stored["subscribed_topic_names"] = frozenset(request.subscribed_topic_names)
    return member.changed(**stored)


def _told(assigned: Assignment) -> ShareGroupHeartbeatAssignment:
    return ShareGroupHeartbeatAssignment(
        topic_partitions=[
            ShareGroupHeartbeatTopicPartitions(topic_id=topic, partitions=sorted(indexes))
            for topic, indexes in assigned.items()
        ]
    )
