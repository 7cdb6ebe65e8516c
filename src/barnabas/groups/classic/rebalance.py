"""Rebalance of a classic group: from one generation to the next."""

from __future__ import annotations

from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.coordination import CoordinatorResult, Deadlines
from barnabas.groups.classic.group import ClassicGroup, ClassicGroupState
from barnabas.groups.classic.member import ClassicGroupMember
from barnabas.groups.classic.records import group_record
from barnabas.groups.group import DeadlineType, GroupDeadline
from barnabas.groups.results import GroupResult, sync_reply
from barnabas.groups.settings import GroupSettings
from barnabas.protocol.messages.groups import SyncGroupResponse

logger = rate_limited_logger(__name__)


class Rebalances:
    """The two phases of a rebalance. Every method adds records and replies to the given result."""

    def __init__(self, settings: GroupSettings, clock: Clock, deadlines: Deadlines[GroupDeadline]) -> None:
        self.settings = settings
        self.clock = clock
        self.deadlines = deadlines
        self._delay_left_ms: dict[str, int] = {}

    # -- phase one: all members join ----------------------------------------------------------------

    def maybe_prepare_rebalance(self, group: ClassicGroup, reason: str, result: GroupResult) -> None:
        """A member joined, left or changed: start a rebalance, or check whether the current one is complete."""
        if group.can_rebalance:
            self.prepare(group, reason, result)
        else:
            group.note(reason)
            self.maybe_complete_join(group, result)

    def prepare(self, group: ClassicGroup, reason: str, result: GroupResult) -> None:
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, result)
        self.deadlines.cancel(GroupDeadline(DeadlineType.SYNC, group.group_id))
        is_first = group.state is ClassicGroupState.EMPTY
        group.transition(ClassicGroupState.PREPARING_REBALANCE, self.clock.now_ms())
        group.note(reason)
        logger.info("group %r, generation %d: rebalance: %s", group.group_id, group.generation, reason)
        if is_first:
            self._wait_for_more(group)
        elif group.all_have_joined:
            self.complete_join(group, result)
        else:
            self.deadlines.set(GroupDeadline(DeadlineType.JOIN, group.group_id), group.rebalance_timeout_ms)

    def maybe_complete_join(self, group: ClassicGroup, result: GroupResult) -> None:
        """Complete the phase, except during the initial delay: other members may be starting."""
        in_initial_delay = group.previous_state is ClassicGroupState.EMPTY
        if (
            group.state is ClassicGroupState.PREPARING_REBALANCE
            and not in_initial_delay
            and group.all_have_joined
        ):
            self.complete_join(group, result)

    def _wait_for_more(self, group: ClassicGroup) -> None:
        delay_ms = self.settings.initial_rebalance_delay_ms
        self._delay_left_ms[group.group_id] = max(group.rebalance_timeout_ms - delay_ms, 0)
        self.deadlines.set(GroupDeadline(DeadlineType.INITIAL_DELAY, group.group_id), delay_ms)

    def end_initial_delay(self, group: ClassicGroup, result: GroupResult) -> None:
        """Extend the delay if a member joined meanwhile, within the rebalance timeout; otherwise complete the join."""
        left_ms = self._delay_left_ms.pop(group.group_id, 0)
        if group.member_added and left_ms:
            group.member_added = False
            delay_ms = min(self.settings.initial_rebalance_delay_ms, left_ms)
            self._delay_left_ms[group.group_id] = left_ms - delay_ms
            self.deadlines.set(GroupDeadline(DeadlineType.INITIAL_DELAY, group.group_id), delay_ms)
        else:
            self.complete_join(group, result)

    def complete_join(self, group: ClassicGroup, result: GroupResult) -> None:
        """Members that have joined form the next generation; the others are removed, except static members."""
        self.deadlines.cancel(GroupDeadline(DeadlineType.JOIN, group.group_id))
        self._remove_absent(group, result)
        if group.members and not group.elect_joined_leader():
            # Only absent static members are left: their session timeouts decide.
            self.deadlines.set(GroupDeadline(DeadlineType.JOIN, group.group_id), group.rebalance_timeout_ms)
            return
        group.begin_generation(self.clock.now_ms())
        if group.state is ClassicGroupState.EMPTY:
            logger.info("group %r is empty in generation %d", group.group_id, group.generation)
            result.records.append(group_record(group, {}))
        else:
            self._answer_joins(group, result)
            self.deadlines.set(GroupDeadline(DeadlineType.SYNC, group.group_id), group.rebalance_timeout_ms)

    def _remove_absent(self, group: ClassicGroup, result: GroupResult) -> None:
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.instance_id is None:
                group.note(f"{member.member_id} did not rejoin within the rebalance timeout")
                self.forget(group, member.member_id, result)

    def _answer_joins(self, group: ClassicGroup, result: GroupResult) -> None:
        for member in group.members.values():
            joining, member.awaiting_join = member.awaiting_join, None
            if joining is not None:
                result.replies.append(joining.reply(group.join_response(member)))
            self.expect_heartbeat(group, member)
            member.is_new = False
            group.pending_syncs.add(member.member_id)

    # -- phase two: distribute the leader's assignment ----------------------------------------------

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes], result: GroupResult) -> None:
        """Store the leader's assignment and answer every member that has synced."""
        generation = group.generation
        result.records.append(group_record(group, assignments))
        for member in group.members.values():
            respond, member.awaiting_sync = member.awaiting_sync, None
            if respond is not None:
                response = group.sync_response(assignments.get(member.member_id, b""))
                result.replies.append(sync_reply(respond, response))
                self.expect_heartbeat(group, member)
        result.revert = lambda: self._start_over(group, generation)

    def _start_over(self, group: ClassicGroup, generation: int) -> None:
        """Rebalance again after a failed write: all members received an error and will rejoin."""
        if group.state is ClassicGroupState.COMPLETING_REBALANCE and group.generation == generation:
            self.prepare(group, "the assignment could not be stored", CoordinatorResult(None))

    def fail_syncs(self, group: ClassicGroup, error: ErrorCode, result: GroupResult) -> None:
        for member in group.members.values():
            member.assignment = b""
            respond, member.awaiting_sync = member.awaiting_sync, None
            if respond is not None:
                result.replies.append(sync_reply(respond, SyncGroupResponse(error_code=error)))
                self.expect_heartbeat(group, member)

    def sync_overdue(self, group: ClassicGroup, result: GroupResult) -> None:
        """Remove members that did not sync after their JoinGroup response, because the others wait for them."""
        if (
            group.state not in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE)
            or not group.pending_syncs
        ):
            return
        absent = sorted(group.pending_syncs)
        for member_id in absent:
            self.forget(group, member_id, result)
        self.prepare(group, f"{', '.join(absent)} did not sync within the rebalance timeout", result)

    def synced(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            self.deadlines.cancel(GroupDeadline(DeadlineType.SYNC, group.group_id))

    # -- members ------------------------------------------------------------------------------------

    def expect_heartbeat(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        key = GroupDeadline(DeadlineType.HEARTBEAT, group.group_id, member.member_id)
        self.deadlines.set(key, member.timeouts.session_ms)

    def forget(self, group: ClassicGroup, member_id: str, result: GroupResult) -> None:
        self.deadlines.cancel(GroupDeadline(DeadlineType.HEARTBEAT, group.group_id, member_id))
        group.remove(member_id, result)
