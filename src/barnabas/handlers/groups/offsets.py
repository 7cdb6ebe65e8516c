"""Offsets of groups: OffsetCommit 2 to 10 and OffsetFetch 1 to 10.

OffsetCommit
- Versions 2 to 4 may set a retention time; later ones use offsets.retention.minutes.
- Version 6 brought leader epochs, 7 instance ids, 9 GROUP_ID_NOT_FOUND, 10 topic ids in place of names (KIP-848).

OffsetFetch
- A null list of topics means all that the group has committed (since version 2).
- Version 7 can require stable offsets (KIP-447), 8 has several groups, 10 names topics by id.
- Version 1 has no top-level error: it is repeated in each partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.coordination import CoordinatorResult, ask_each
from barnabas.groups import NO_EXPIRY, Committed, Committer, GroupShard, commit_error
from barnabas.handlers.needs import HasGroups, HasImage
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request

FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_COMMIT_WITH_NOT_FOUND = 9
FIRST_FETCH_OF_SEVERAL = 8
FIRST_FETCH_WITH_ERROR = 2
NO_OFFSET = -1
LATEST_TIME = 2**63 - 1  # a client's retention time may exceed the range of timestamps


# -- OffsetCommit ---------------------------------------------------------------------------------------


class OffsetNeeds(HasGroups, HasImage, Protocol):
    """Broker attributes used by group offsets."""

    @property
    def clock(self) -> Clock: ...


def offset_commit(
    broker: OffsetNeeds, request: Request, message: OffsetCommitRequest
) -> OffsetCommitResponse | None:
    commit = _Commit(broker, request, message)
    if not commit.offsets:
        return commit.response
    broker.coordinators.groups.write(
        message.group_id, commit.handle, commit.answer, errors=commit_error, is_batched=True
    )
    return None


class _Commit:
    """Splits the partitions of a commit into storable ones and errors."""

    def __init__(self, broker: OffsetNeeds, request: Request, message: OffsetCommitRequest) -> None:
        self.offsets: list[tuple[TopicPartition, Committed]] = []
        self._answers: list[OffsetCommitResponsePartition] = []
        self._request = request
        self._message = message
        self._image = broker.image
        self._longest_metadata = broker.coordinators.groups.settings.offset_metadata_max_bytes
        self._now_ms = broker.clock.now_ms()
        keep_ms = message.retention_time_ms
        self._expire_ms = min(self._now_ms + keep_ms, LATEST_TIME) if keep_ms >= 0 else NO_EXPIRY
        self._by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
        self.response = OffsetCommitResponse(topics=[self._add_topic(topic) for topic in message.topics])

    def handle(self, shard: GroupShard) -> CoordinatorResult[None]:
        message = self._message
        committer = Committer(
            message.member_id,
            message.group_instance_id,
            message.generation_id_or_member_epoch,
            self._request.version,
        )
        check = shard.check_commit(message.group_id, committer)
        for tp, committed in self.offsets:
            check(tp, committed.topic_id)
        return shard.commit(message.group_id, self.offsets)

    def answer(self, outcome: KafkaError | None) -> None:
        if outcome is not None:
            self._refuse(outcome.code)
        self._request.respond(self.response)

    def _refuse(self, error: ErrorCode) -> None:
        if error is ErrorCode.GROUP_ID_NOT_FOUND and self._request.version < FIRST_COMMIT_WITH_NOT_FOUND:
            error = ErrorCode.ILLEGAL_GENERATION
        for answer in self._answers:
            answer.error_code = error

    def _add_topic(self, topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
        image = self._image
        state = image.topic_by_id(topic.topic_id) if self._by_id else image.topics.get(topic.name)
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        for partition in topic.partitions:
            index, metadata = partition.partition_index, partition.committed_metadata or ""
            outcome = OffsetCommitResponsePartition(partition_index=index)
            answer.partitions.append(outcome)
            if state is None or state.partition(index) is None:
                outcome.error_code = self._missing(state is None)
            elif len(metadata) > self._longest_metadata:
                outcome.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                self._answers.append(outcome)
                committed = Committed(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    self._now_ms,
                    self._expire_ms,
                    state.topic_id,
                )
                self.offsets.append((TopicPartition(state.name, index), committed))
        return answer

    def _missing(self, whole_topic: bool) -> ErrorCode:
        by_id = self._by_id and whole_topic
        return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- OffsetFetch ----------------------------------------------------------------------------------------


def offset_fetch(
    broker: OffsetNeeds, request: Request, message: OffsetFetchRequest
) -> OffsetFetchResponse | None:
    several = request.version >= FIRST_FETCH_OF_SEVERAL
    wanted = message.groups if several else [_as_group(message)]

    def finish(groups: list[OffsetFetchResponseGroup]) -> None:
        if several:
            request.respond(OffsetFetchResponse(groups=groups))
        else:
            request.respond(_as_single(groups[0]))

    def fetch(group: OffsetFetchRequestGroup, done: Callable[[OffsetFetchResponseGroup], None]) -> None:
        _Fetch(broker.image, group, request.version, stable=message.require_stable).run(broker, done)

    ask_each(wanted, fetch, finish)
    return None


def _as_group(message: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if message.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in message.topics
        ]
    return OffsetFetchRequestGroup(group_id=message.group_id, topics=topics)


class _Fetch:
    """Committed offsets of one group."""

    def __init__(
        self, image: MetadataImage, wanted: OffsetFetchRequestGroup, version: int, *, stable: bool
    ) -> None:
        self._image = image
        self._wanted = wanted
        self._version = version
        self._by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        self._stable = stable

    def run(self, broker: OffsetNeeds, done: Callable[[OffsetFetchResponseGroup], None]) -> None:
        group_id = self._wanted.group_id

        def answered(outcome: list[OffsetFetchResponseTopics] | KafkaError) -> None:
            if isinstance(outcome, KafkaError):
                done(self._refusal(outcome.code))
            else:
                done(OffsetFetchResponseGroup(group_id=group_id, topics=outcome))

        broker.coordinators.groups.read(group_id, self._topics, answered)

    def _refusal(self, error: ErrorCode) -> OffsetFetchResponseGroup:
        refusal = OffsetFetchResponseGroup(group_id=self._wanted.group_id, error_code=error)
        if self._version < FIRST_FETCH_WITH_ERROR:
            refusal.topics = [
                OffsetFetchResponseTopics(
                    name=topic.name,
                    partitions=[_no_offset(index, error) for index in topic.partition_indexes],
                )
                for topic in self._wanted.topics or ()
            ]
        return refusal

    def _topics(self, shard: GroupShard) -> list[OffsetFetchResponseTopics]:
        shard.check_fetch(self._wanted.group_id, self._wanted.member_id, self._wanted.member_epoch)
        if self._wanted.topics is None:
            return self._all(shard)
        return [self._topic(shard, topic) for topic in self._wanted.topics]

    def _all(self, shard: GroupShard) -> list[OffsetFetchResponseTopics]:
        by_topic: dict[str, list[int]] = {}
        for tp in shard.committed(self._wanted.group_id):
            by_topic.setdefault(tp.topic, []).append(tp.partition)
        return [
            self._known(shard, name, self._topic_id(name), indexes)
            for name, indexes in by_topic.items()
            if not self._by_id or name in self._image.topics
        ]

    def _topic_id(self, name: str) -> Uuid:
        state = self._image.topics.get(name)
        return state.topic_id if state is not None else ZERO_UUID

    def _topic(self, shard: GroupShard, topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        name: str | None = topic.name
        if self._by_id:
            name = self._image.topic_names_by_id.get(topic.topic_id)
        if name is None:
            unknown = [_no_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
            return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=unknown)
        return self._known(shard, name, topic.topic_id, topic.partition_indexes)

    def _known(
        self, shard: GroupShard, name: str, topic_id: Uuid, indexes: list[int]
    ) -> OffsetFetchResponseTopics:
        return OffsetFetchResponseTopics(
            name=name,
            topic_id=topic_id,
            partitions=[self._partition(shard, TopicPartition(name, index)) for index in indexes],
        )

    def _partition(self, shard: GroupShard, tp: TopicPartition) -> OffsetFetchResponsePartitions:
        group_id = self._wanted.group_id
        if self._stable and shard.offsets.is_pending(group_id, tp):
            return _no_offset(tp.partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = shard.committed(group_id).get(tp)
        if committed is None:
            return _no_offset(tp.partition, ErrorCode.NONE)
        return OffsetFetchResponsePartitions(
            partition_index=tp.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
    )


def _as_single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Convert the response to versions with a single group."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
