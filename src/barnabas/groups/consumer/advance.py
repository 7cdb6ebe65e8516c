"""One request of a member on its way through the three epochs: the group's, the target's, its own.

Nothing is changed here: records are added to the step, and the numbers that they will lead to are kept for what
comes next in the same step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set

from barnabas.groups.assignors import CONSUMER_ASSIGNORS
from barnabas.groups.assignors.spec import MemberSpec
from barnabas.groups.awaited import Awaited, Deadline
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.member import ConsumerMember, MemberState
from barnabas.groups.consumer.reconciliation import Goal, Reported, reconcile
from barnabas.groups.consumer.records import (
    current_record,
    epoch_record,
    old_metadata_tombstone,
    target_epoch_record,
    target_record,
)
from barnabas.groups.kind import ShardContext
from barnabas.groups.modern import Assignment, may_assign
from barnabas.groups.step import Step
from barnabas.log_lines import limited_logger
from barnabas.types import Uuid

logger = limited_logger(__name__)


class Advance:
    """`before` and `after` are the member as it was and as it describes itself now."""

    def __init__(
        self,
        context: ShardContext,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        step: Step,
    ) -> None:
        self._context = context
        self._group = group
        self._before = before
        self._step = step
        self.after = after
        self.epoch = group.epoch
        self._goal_epoch = group.assignment_epoch
        self._target: Assignment = group.target(after)

    # -- the group epoch ----------------------------------------------------------------------------

    def update_epoch(self, reason: str) -> None:
        """A new epoch if there is a reason, or if the subscribed topics are not what they were."""
        group = self._group
        if not reason and not group.topics_may_have_changed:
            return
        members = self._members()
        subscribed = group.topics_of_all(members.values())
        metadata_hash = self._context.topics.hash_of(subscribed)
        if not reason and metadata_hash != group.metadata_hash:
            reason = "the subscribed topics have changed"
        if reason:
            self.epoch = group.epoch + 1
            logger.info("group %r has epoch %d: %s", group.group_id, self.epoch, reason)
            self._step.records.append(epoch_record(group.group_id, self.epoch, metadata_hash, reason))
        else:
            group.topics_may_have_changed = False
        if group.has_old_metadata:
            self._step.records.append(old_metadata_tombstone(group.group_id))

    def _members(self) -> dict[str, ConsumerMember]:
        """Everybody, with the member as it will be, in the place of whom it replaces."""
        members = dict(self._group.members)
        replaced = self._group.static_members.get(self.after.instance_id or "")
        if replaced is not None:
            members.pop(replaced)
        members[self.after.member_id] = self.after
        return members

    # -- the target ---------------------------------------------------------------------------------

    @property
    def needs_target(self) -> bool:
        """There is none yet for the present epoch."""
        return self._group.assignment_epoch < self.epoch

    def update_target(self, assignors: list[str], interval_ms: int) -> None:
        """Compute the target for the present epoch, unless the last one is too young."""
        group, now_ms = self._group, self._context.clock.now_ms()
        if not may_assign(group, interval_ms, now_ms):
            return
        members = self._members()
        name = preferred_assignor(members.values(), assignors)
        specs = self._specs(members)
        distinct = {id(spec.topics): spec.topics for spec in specs.values()}
        counts = self._context.topics.partition_counts(set().union(*distinct.values()))
        targets = CONSUMER_ASSIGNORS[name](specs, counts)
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                self._step.records.append(target_record(group.group_id, member_id, target))
        self._step.records.append(target_epoch_record(group.group_id, self.epoch, now_ms))
        self._goal_epoch, self._target = self.epoch, targets[self.after.member_id]

    def _specs(self, members: dict[str, ConsumerMember]) -> dict[str, MemberSpec]:
        known: dict[tuple[frozenset[str], str], Set[Uuid]] = {}
        specs = {}
        for member_id, member in members.items():
            subscription = (member.subscribed_topic_names, member.pattern)
            if subscription not in known:
                known[subscription] = self._context.topics.ids(self._group.topics_of(member))
            specs[member_id] = MemberSpec(known[subscription], self._group.target(member), member.instance_id)
        return specs

    # -- the member ---------------------------------------------------------------------------------

    def reconcile(self, reported: Reported | None, *, subscription_changed: bool) -> ConsumerMember:
        """Move the member towards its target as far as it can go now."""
        member, group = self.after, self._group
        if not subscription_changed and member.is_reconciled_to(self._goal_epoch):
            return member
        itself = (None, member.member_id, group.static_members.get(member.instance_id or ""))
        goal = Goal(
            self._goal_epoch,
            self._target,
            self._context.topics.ids(group.topics_of(member)),
            lambda topic, index: group.owner(topic, index) not in itself,
        )
        moved = reconcile(member, goal, reported, subscription_changed=subscription_changed)
        if moved != member:
            self._step.records.append(current_record(group.group_id, moved))
            self._expect_revocation(moved)
        self.after = moved
        return moved

    def _expect_revocation(self, member: ConsumerMember) -> None:
        """Members of the classic protocol have until the end of their rebalance timeout to join again instead."""
        if member.classic is not None:
            return
        deadline = Deadline(Awaited.REVOCATION, self._group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED:
            self._context.deadlines.set(deadline, member.rebalance_ms)
        else:
            self._context.deadlines.cancel(deadline)


def preferred_assignor(members: Iterable[ConsumerMember], assignors: list[str]) -> str:
    """The one that most members want; of several, and of none, the first that the broker names."""
    votes = Counter(member.assignor for member in members if member.assignor in assignors)
    return max(assignors, key=lambda name: votes[name])
