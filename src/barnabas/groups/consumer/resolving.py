"""Resolution of the patterns of a group: immediately for a new pattern, every few seconds while topics change."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.coordination import CoordinatorRecord, CoordinatorResult
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.member import ConsumerMember
from barnabas.groups.consumer.patterns import NOT_RESOLVED, Resolution, Resolved, compile_pattern
from barnabas.groups.consumer.records import epoch_record, pattern_record, pattern_tombstone
from barnabas.groups.group import ClientInfo
from barnabas.groups.manager import ShardContext
from barnabas.groups.results import GroupResult

logger = rate_limited_logger(__name__)

REFRESH_AT_MOST_EVERY_MS = 5000
"""Topics may be created by the hundred; matching them every few seconds is enough."""


class PatternChange(NamedTuple):
    has_changed: bool
    counts_now: bool
    """The topics of the member's subscription are known: its group may get a new epoch immediately."""


UNCHANGED = PatternChange(has_changed=False, counts_now=False)


class Resolving:
    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._in_progress: set[str] = set()

    def update(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        client: ClientInfo,
        result: GroupResult,
    ) -> PatternChange:
        """Register a member's pattern and check whether patterns have to be matched again.

        As in Kafka, they match the topics that the client of the current request may describe, for all members.
        """
        change = self._change(group, before, after, result)
        patterns = set(group.patterns)
        if after.pattern:
            patterns.add(after.pattern)
        if patterns and self._is_due(group, patterns):
            self._start(group.group_id, patterns, client)
        return change

    def _change(
        self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, result: GroupResult
    ) -> PatternChange:
        old, new = before.pattern, after.pattern
        if old == new:
            return UNCHANGED
        if new and not group.patterns[new]:
            compile_pattern(new)  # raises if it is invalid
        if old and group.patterns[old] == 1:
            result.records.append(pattern_tombstone(group.group_id, old))
        return PatternChange(has_changed=True, counts_now=not new or new in group.resolved)

    def _is_due(self, group: ConsumerGroup, patterns: set[str]) -> bool:
        if group.group_id in self._in_progress:
            return False
        if not patterns <= group.resolved.keys():
            return True
        oldest = min((group.resolved[pattern] for pattern in patterns), key=lambda one: one.resolved_ms)
        age_ms = self._context.clock.now_ms() - oldest.resolved_ms
        if age_ms < 0:
            return True  # the clock was set back, or belongs to another broker
        if oldest.version < self._context.topics.names_version and age_ms > REFRESH_AT_MOST_EVERY_MS:
            return True
        return age_ms > self._context.settings.regex_refresh_ms

    def _start(self, group_id: str, patterns: set[str], client: ClientInfo) -> None:
        topics = self._context.topics
        resolution = Resolution(
            sorted(patterns), topics.names(), topics.version, self._context.clock, client.may_describe
        )
        self._in_progress.add(group_id)
        self._context.soon(lambda: self._continue(group_id, resolution))

    def _continue(self, group_id: str, resolution: Resolution) -> CoordinatorResult[None]:
        if not resolution.run_slice():
            self._context.soon(lambda: self._continue(group_id, resolution))
            return CoordinatorResult(None)
        self._in_progress.discard(group_id)
        group = self._context.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return CoordinatorResult(None)
        return CoordinatorResult(None, self._records(group, resolution.results()))

    def _records(self, group: ConsumerGroup, results: dict[str, Resolved]) -> list[CoordinatorRecord]:
        """Store the topics of current subscriptions; a new epoch if they differ from before, or from a target."""
        wanted = {pattern: found for pattern, found in results.items() if group.patterns[pattern]}
        different = [
            pattern
            for pattern, found in wanted.items()
            if group.resolved.get(pattern, NOT_RESOLVED).topics != found.topics
            or (pattern not in group.resolved and _has_assignment(group, pattern))
        ]
        records = [pattern_record(group.group_id, pattern, found) for pattern, found in wanted.items()]
        resolved = {**group.resolved, **wanted}
        subscribed = {
            *group.subscriptions.topics,
            *(name for found in resolved.values() for name in found.topics),
        }
        metadata_hash = self._context.topics.hash_of(subscribed)
        if different or metadata_hash != group.metadata_hash:
            reason = "other topics match " + ", ".join(different) if different else "topics have changed"
            epoch = group.epoch + 1
            logger.info("group %r has epoch %d: %s", group.group_id, epoch, reason)
            records.append(epoch_record(group.group_id, epoch, metadata_hash, reason))
        return records


def _has_assignment(group: ConsumerGroup, pattern: str) -> bool:
    """True if a member with this pattern has partitions in its target. If the pattern is new, they are from the
    member's previous subscription, and need a new target even if the pattern matches nothing."""
    return any(
        member.pattern == pattern and group.targets.get(member.member_id) for member in group.members.values()
    )
