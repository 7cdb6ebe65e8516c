"""A consumer group: its members, partition owners and patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Set

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.coordination import CoordinatorRecord
from barnabas.groups.classic.member import protocol_bytes
from barnabas.groups.consumer.member import ConsumerMember
from barnabas.groups.consumer.patterns import NOT_RESOLVED, Resolved
from barnabas.groups.consumer.records import group_tombstones
from barnabas.groups.group import Committer, GroupType, PartitionCheck, any_partition
from barnabas.groups.memory_budget import Weight
from barnabas.groups.modern import Assignment, ModernGroup
from barnabas.groups.topics import NO_NAMES
from barnabas.protocol.messages.consumer import CONSUMER_PROTOCOL


class ConsumerGroup(ModernGroup[ConsumerMember, Assignment]):
    group_type = GroupType.CONSUMER

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.protocol_type = CONSUMER_PROTOCOL
        self.patterns: Counter[str] = Counter()
        """Number of members per pattern."""
        self.resolved: dict[str, Resolved] = {}
        self.has_old_metadata = False
        """The log has a record of partition counts, which Kafka wrote before 4.1; the next epoch deletes it."""
        self._owners: dict[tuple[Uuid, int], str] = {}
        self._metadata_bytes = 0
        self._new_members = 0

    # -- facts --------------------------------------------------------------------------------------

    def owner(self, topic_id: Uuid, partition: int) -> str | None:
        """Current owner of a partition, whatever the target says. No other member gets it before it is revoked."""
        return self._owners.get((topic_id, partition))

    def subscribed_topics(self) -> Set[str]:
        names = super().subscribed_topics()
        if not self.resolved:
            return names
        return names | {topic for resolved in self.resolved.values() for topic in resolved.topics}

    def weight(self) -> Weight:
        members, size = super().weight()
        return Weight(members, size + self._metadata_bytes)

    def topics_of(self, member: ConsumerMember) -> Set[str]:
        """Topics by name and by pattern."""
        by_pattern = self.resolved.get(member.pattern, NOT_RESOLVED).topics
        return member.subscribed_topic_names | by_pattern if by_pattern else member.subscribed_topic_names

    def topics_without(
        self, removed_topics: Collection[ConsumerMember], joined: ConsumerMember | None = None
    ) -> set[str]:
        """Topics, by name and by pattern, of all members after these have left and one has joined."""
        names = joined.subscribed_topic_names if joined is not None else NO_NAMES
        topics = self.subscriptions.topics_without(
            (one.subscribed_topic_names for one in removed_topics), names
        )
        if self.resolved:
            left = self.patterns - Counter(one.pattern for one in removed_topics)
            subscribed = {*left, joined.pattern} if joined is not None else left
            topics.update(*(self.resolved.get(pattern, NOT_RESOLVED).topics for pattern in subscribed))
        return topics

    def target(self, member: ConsumerMember) -> Assignment:
        """Target of the member, or of the static member that it replaces."""
        holder = self.static_members.get(member.instance_id or "", member.member_id)
        return self.targets.get(holder, {})

    def waits_for_release(self, member: ConsumerMember) -> bool:
        """True if another member still owns a partition of its target."""
        return any(
            index not in member.owned.get(topic, {})
            and self.owner(topic, index) not in (None, member.member_id)
            for topic, indexes in self.targets.get(member.member_id, {}).items()
            for index in indexes
        )

    @property
    def new_members(self) -> int:
        """Number of members that use the consumer protocol."""
        return self._new_members

    @property
    def classic_members(self) -> list[ConsumerMember]:
        return [member for member in self.members.values() if member.classic is not None]

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """True if a member with these classic protocols has one in common with all other classic members."""
        if protocol_type != CONSUMER_PROTOCOL:
            return False
        others = [member.classic for member in self.members.values() if member.classic is not None]
        supported = [{protocol.name for protocol in classic.protocols} for classic in others]
        return any(all(name in known for known in supported) for name in names)

    def tombstones(self) -> list[CoordinatorRecord]:
        return group_tombstones(self.group_id, self.members, self.resolved)

    # -- offsets ------------------------------------------------------------------------------------

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.member_epoch:
            raise _stale(
                member,
                f"The received generation id {epoch} does not match the expected member epoch "
                f"{member.member_epoch}."
                if member.classic is not None
                else f"The received member epoch {epoch} does not match the expected member epoch "
                f"{member.member_epoch}.",
            )

    def check_commit(self, committer: Committer) -> PartitionCheck:
        """Accept an older epoch for partitions that the member has owned since then (KIP-1251)."""
        if committer.needs_no_member(self.members):
            return any_partition
        member = self.member(committer.member_id)
        is_new = member.classic is None
        if is_new:
            committer.check_version("consumer")
        if committer.epoch == member.member_epoch:
            return any_partition
        if committer.epoch > member.member_epoch:
            word = "member epoch" if is_new else "generation id"
            raise _stale(
                member,
                f"Received {word} {committer.epoch} is newer than current member epoch {member.member_epoch}.",
            )
        return _since(member, committer.epoch)

    # -- replays ------------------------------------------------------------------------------------

    def store(self, member: ConsumerMember) -> None:
        known = self.members.get(member.member_id)
        super().store(member)
        if known is None or known.owned is not member.owned or known.revoking is not member.revoking:
            self._unassign(known)
            for topic, indexes in _all_partitions(member):
                for index in indexes:
                    self._owners[topic, index] = member.member_id
        self._count_pattern(known, member)
        self._weigh(known, member)

    def remove(self, member_id: str) -> None:
        known = self.members.get(member_id)
        super().remove(member_id)
        self._unassign(known)
        self._count_pattern(known, None)
        self._weigh(known, None)

    def _weigh(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        self._metadata_bytes += _metadata_bytes(after) - _metadata_bytes(before)
        self._new_members += _is_new(after) - _is_new(before)

    def _unassign(self, member: ConsumerMember | None) -> None:
        if member is not None:
            for topic, indexes in _all_partitions(member):
                for index in indexes:
                    if self._owners.get((topic, index)) == member.member_id:
                        del self._owners[topic, index]

    def _count_pattern(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        old, new = before.pattern if before else "", after.pattern if after else ""
        if old == new:
            return
        if new:
            self.patterns[new] += 1
        if old:
            self.patterns[old] -= 1
            if not self.patterns[old]:
                del self.patterns[old]


def _all_partitions(member: ConsumerMember) -> Iterable[tuple[Uuid, Iterable[int]]]:
    yield from member.owned.items()
    yield from member.revoking.items()


def _metadata_bytes(member: ConsumerMember | None) -> int:
    """Metadata bytes, topic names excluded."""
    if member is None:
        return 0
    return len(member.pattern) + (protocol_bytes(member.classic.protocols) if member.classic else 0)


def _is_new(member: ConsumerMember | None) -> bool:
    """True if it uses the consumer protocol."""
    return member is not None and member.classic is None


def _since(member: ConsumerMember, epoch: int) -> PartitionCheck:
    word = "generation id" if member.classic is not None else "member epoch"

    def check(tp: TopicPartition, topic_id: Uuid) -> None:
        since = member.assignment_epoch(topic_id, tp.partition)
        if since is None:
            raise _stale(member, f"Partition {tp} is not assigned or pending revocation for member.")
        if epoch < since:
            raise _stale(
                member,
                f"Received {word} {epoch} is older than assignment epoch {since} for partition {tp}.",
            )

    return check


def _stale(member: ConsumerMember, message: str) -> KafkaError:
    """Classic members know ILLEGAL_GENERATION only."""
    is_new = member.classic is None
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH if is_new else ErrorCode.ILLEGAL_GENERATION, message)
