"""One heartbeat of a member through the three epochs: group, target and member.

Nothing is changed here: records are added to the result, and the resulting epochs are kept for the following steps
of the same request.
"""

from __future__ import annotations

from barnabas.common.cooperative import finish
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.groups.assigning import Assigning
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.member import ConsumerMember, MemberState
from barnabas.groups.consumer.reconciliation import MemberTarget, Reported, reconcile
from barnabas.groups.consumer.records import (
    current_record,
    epoch_record,
    old_metadata_tombstone,
    target_epoch_record,
    target_record,
)
from barnabas.groups.consumer.targets import GroupView, compute, is_large
from barnabas.groups.group import DeadlineType, GroupDeadline
from barnabas.groups.manager import ShardContext
from barnabas.groups.modern import FIRST_EPOCH, NO_ASSIGNMENT_YET, Assignment, may_assign
from barnabas.groups.results import GroupResult

logger = rate_limited_logger(__name__)


class Advance:
    """`before` and `after` are the member before the request and as it describes itself now."""

    def __init__(
        self,
        context: ShardContext,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        result: GroupResult,
    ) -> None:
        self._context = context
        self._group = group
        self._before = before
        self._result = result
        self.after = after
        self.epoch = group.epoch
        self._goal_epoch = group.assignment_epoch
        self._target: Assignment = group.target(after)
        self._all_topics: set[str] | None = None

    # -- the group epoch ----------------------------------------------------------------------------

    def update_epoch(self, reason: str) -> None:
        """Bump the epoch if there is a reason, or if the subscribed topics have changed."""
        group = self._group
        if not reason and not group.topics_may_have_changed:
            return
        metadata_hash = self._context.topics.hash_of(self._topics())
        if not reason and metadata_hash != group.metadata_hash:
            reason = "the subscribed topics have changed"
        if reason:
            self.epoch = group.epoch + 1
            logger.info("group %r has epoch %d: %s", group.group_id, self.epoch, reason)
            self._result.records.append(epoch_record(group.group_id, self.epoch, metadata_hash, reason))
        else:
            group.topics_may_have_changed = False
        if group.has_old_metadata:
            self._result.records.append(old_metadata_tombstone(group.group_id))

    def _topics(self) -> set[str]:
        """Topics of all members, including the updated one."""
        if self._all_topics is None:
            self._all_topics = self._group.topics_without(self._replaced(), self.after)
        return self._all_topics

    def _replaced(self) -> list[ConsumerMember]:
        """Members that this one replaces: its previous version, and the previous static member."""
        ids = {self.after.member_id, self._group.static_members.get(self.after.instance_id or "")}
        return [self._group.members[one] for one in ids if one in self._group.members]

    def _members(self) -> dict[str, ConsumerMember]:
        """All members, with the updated one in place of those it replaces."""
        members = dict(self._group.members)
        replaced = self._group.static_members.get(self.after.instance_id or "")
        if replaced is not None:
            members.pop(replaced)
        members[self.after.member_id] = self.after
        return members

    # -- the target ---------------------------------------------------------------------------------

    @property
    def needs_target(self) -> bool:
        """True if the current epoch has no target yet."""
        return self._group.assignment_epoch < self.epoch

    def update_target(self, assigning: Assigning[ConsumerGroup, Assignment], interval_ms: int) -> None:
        """Compute the target of the current epoch, unless the last one is too recent. A large group takes
        longer: the member keeps the current target meanwhile."""
        group, now_ms = self._group, self._context.clock.now_ms()
        if not may_assign(group, interval_ms, now_ms):
            return
        if is_large(self._context, group, self._topics(), self.after) and self.epoch > FIRST_EPOCH:
            assigning.start(group.group_id)
            if group.assignment_epoch < FIRST_EPOCH:
                self._begin_with_nothing()
            return
        targets = finish(compute(self._context, self._seen()))
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                self._result.records.append(target_record(group.group_id, member_id, target))
        self._result.records.append(target_epoch_record(group.group_id, self.epoch, now_ms))
        self._goal_epoch, self._target = self.epoch, targets[self.after.member_id]

    def _begin_with_nothing(self) -> None:
        """A member needs an epoch, and its epoch is that of a target: write an empty one."""
        self._goal_epoch = self.epoch - 1
        record = target_epoch_record(self._group.group_id, self._goal_epoch, NO_ASSIGNMENT_YET)
        self._result.records.append(record)

    def _seen(self) -> GroupView:
        group = self._group
        return GroupView(self._members(), group.targets, group.static_members, group.resolved)

    # -- the member ---------------------------------------------------------------------------------

    def reconcile(self, reported: Reported | None, *, subscription_changed: bool) -> ConsumerMember:
        """Move the member towards its target as far as possible now."""
        member, group = self.after, self._group
        if not subscription_changed and member.is_reconciled_to(self._goal_epoch):
            return member
        itself = (None, member.member_id, group.static_members.get(member.instance_id or ""))
        goal = MemberTarget(
            self._goal_epoch,
            self._target,
            self._context.topics.ids(group.topics_of(member)),
            lambda topic, index: group.owner(topic, index) not in itself,
        )
        moved = reconcile(member, goal, reported, subscription_changed=subscription_changed)
        if moved != member:
            self._result.records.append(current_record(group.group_id, moved))
            self._expect_revocation(moved)
        self.after = moved
        return moved

    def _expect_revocation(self, member: ConsumerMember) -> None:
        """Classic members have their rebalance timeout to rejoin instead."""
        if member.classic is not None:
            return
        deadline = GroupDeadline(DeadlineType.REVOCATION, self._group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED:
            self._context.deadlines.set(deadline, member.rebalance_ms)
        else:
            self._context.deadlines.cancel(deadline)
