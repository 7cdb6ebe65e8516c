"""Removal of members: on request, after a session timeout, or if they do not revoke partitions in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.member import ConsumerMember
from barnabas.groups.consumer.migration import Migration
from barnabas.groups.consumer.records import epoch_record, member_tombstones, pattern_tombstone
from barnabas.groups.manager import GroupManager
from barnabas.groups.results import GroupResult

logger = rate_limited_logger(__name__)


class Leaving:
    def __init__(self, kind: GroupManager[ConsumerGroup], migration: Migration) -> None:
        self._kind = kind
        self._migration = migration

    def fence(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], reason: str, result: GroupResult
    ) -> None:
        """Remove members from the group. If only classic members remain, it becomes a classic group again."""
        if not members:
            return
        logger.info("group %r: %s", group.group_id, reason)
        if self._migration.can_go_back(group, members):
            self._migration.go_back(group, result, reason, without=members)
        else:
            self._remove(group, members, reason, result)
        for member in members:
            self._kind.expect_nothing(group.group_id, member.member_id)
        result.revert = lambda: self._expect_again(group, members)

    def _expect_again(self, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> None:
        """The write failed: they are still members, so restart their session timeouts."""
        for member in members:
            session_ms = member.classic.session_ms if member.classic is not None else None
            self._kind.expect_heartbeat(group.group_id, member.member_id, session_ms)

    def _remove(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], reason: str, result: GroupResult
    ) -> None:
        for member in members:
            result.records += member_tombstones(group.group_id, member.member_id)
        patterns = Counter(member.pattern for member in members if member.pattern)
        unused = sorted(pattern for pattern, count in patterns.items() if group.patterns[pattern] <= count)
        result.records += [pattern_tombstone(group.group_id, pattern) for pattern in unused]
        metadata_hash = self._kind.context.topics.hash_of(group.topics_without(members))
        result.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash, reason))
