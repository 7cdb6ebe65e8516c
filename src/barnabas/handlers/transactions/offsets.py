"""TxnOffsetCommit, versions 0 to 6: offsets that take effect when the producer's transaction commits.

They are written to `__consumer_offsets` as records of that producer and stay pending until its marker.

- Version 3 brought member, generation and instance id, so that a zombie of the group is fenced (KIP-447).
- Version 4 brought TRANSACTION_ABORTABLE, version 5 is transactions V2: the partition is added
  implicitly.
- Version 6 names topics by id, and returns GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.image import TopicState
from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.coordination import CoordinatorResult, ProducerIdAndEpoch
from barnabas.groups import Committed, Committer, GroupCoordinator, GroupShard, commit_error
from barnabas.handlers.needs import HasImage, HasReplicas
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.transactions import (
    AddPartitionsToTxnManager,
    Errors,
    TransactionVerification,
    ended_previous,
    for_committer,
    has_ended,
    has_open,
    last_end,
    sender_of_offset_commit,
)

if TYPE_CHECKING:
    from barnabas.log import Log
    from barnabas.network.requests import Request

BY_TOPIC_ID = 6  # the first version with ids of topics, and with the errors of the newer groups
KNOWS_LOADING = 2  # the first version whose clients retry after COORDINATOR_LOAD_IN_PROGRESS


class OffsetCommitCoordinators(Protocol):
    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def admission(self) -> AddPartitionsToTxnManager: ...


class OffsetCommitNeeds(HasImage, HasReplicas, Protocol):
    """Broker attributes used by TxnOffsetCommit."""

    @property
    def clock(self) -> Clock: ...

    @property
    def coordinators(self) -> OffsetCommitCoordinators: ...


def txn_offset_commit(
    broker: OffsetCommitNeeds, request: Request, message: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | None:
    commit = _TransactionalCommit(broker, request, message)
    if not commit.offsets:
        return commit.response
    commit.start()
    return None


class _TransactionalCommit:
    """One request: storable offsets are admitted to the transaction, then written."""

    def __init__(self, broker: OffsetCommitNeeds, request: Request, message: TxnOffsetCommitRequest) -> None:
        self._broker = broker
        self._request = request
        self._message = message
        self._instance = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
        self.offsets: list[tuple[TopicPartition, Committed]] = []
        self._answers: list[TxnOffsetCommitResponsePartition] = []
        self.response = TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    topic.name, topic.topic_id, [self._sort(found, one) for one in topic.partitions]
                )
                for topic in message.topics
                for found in (self._find(topic),)
            ]
        )

    def _find(self, topic: TxnOffsetCommitRequestTopic) -> TopicState | None:
        image = self._broker.image
        if self._request.version >= BY_TOPIC_ID:
            return image.topic_by_id(topic.topic_id)
        return image.topics.get(topic.name)

    def _sort(
        self, topic: TopicState | None, partition: TxnOffsetCommitRequestPartition
    ) -> TxnOffsetCommitResponsePartition:
        """Collect a storable offset; return the response for others."""
        answer = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
        metadata = partition.committed_metadata or ""
        if topic is None and self._request.version >= BY_TOPIC_ID:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif topic is None or topic.partition(partition.partition_index) is None:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif len(metadata) > self._broker.coordinators.groups.settings.offset_metadata_max_bytes:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            committed = Committed(
                partition.committed_offset,
                partition.committed_leader_epoch,
                metadata,
                self._broker.clock.now_ms(),
                topic_id=topic.topic_id,
            )
            self.offsets.append((TopicPartition(topic.name, partition.partition_index), committed))
            self._answers.append(answer)
        return answer

    def start(self) -> None:
        """Ask the transaction coordinator, unless the transaction is known to be open here."""
        if not self._message.group_id:
            self._finish(ErrorCode.INVALID_GROUP_ID)
            return
        try:
            index = self._broker.coordinators.groups.shard_index(self._message.group_id)
        except KafkaError as error:
            self._finish(error.code)
            return
        partition = self._broker.replicas.find(CONSUMER_OFFSETS, index)
        if partition is None or not partition.is_writable:
            self._finish(ErrorCode.NOT_COORDINATOR)
        elif has_open(partition.log, self._instance):
            self._write()
        else:
            self._join(TopicPartition(CONSUMER_OFFSETS, index), partition.log)

    def _join(self, tp: TopicPartition, log: Log) -> None:
        before = last_end(log, self._instance.producer_id)

        def answered(errors: Errors) -> None:
            error = errors.get(tp, ErrorCode.NONE)
            if ended_previous(before, log, self._instance):
                self._join(tp, log)  # the response may be older than that end
            elif error:
                self._finish(for_committer(error))
            elif has_ended(before, log, self._instance):
                self._finish(ErrorCode.INVALID_TXN_STATE)
            else:
                self._write()

        applicant = TransactionVerification(
            sender_of_offset_commit(self._request.version), self._message.transactional_id, self._instance
        )
        self._broker.coordinators.admission.ask(applicant, [tp], answered)

    def _write(self) -> None:
        self._broker.coordinators.groups.write(
            self._message.group_id, self._handle, self._written, errors=commit_error, producer=self._instance
        )

    def _handle(self, shard: GroupShard) -> CoordinatorResult[None]:
        message = self._message
        committer = Committer(
            message.member_id,
            message.group_instance_id,
            message.generation_id_or_member_epoch,
            self._request.version,
            in_transaction=True,
        )
        check = shard.check_commit(message.group_id, committer)
        for tp, committed in self.offsets:
            check(tp, committed.topic_id)
        return shard.commit(message.group_id, self.offsets)

    def _written(self, outcome: KafkaError | None) -> None:
        self._finish(ErrorCode.NONE if outcome is None else outcome.code)

    def _finish(self, error: ErrorCode) -> None:
        version = self._request.version
        if error in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH) and version < BY_TOPIC_ID:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < KNOWS_LOADING:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for answer in self._answers:
            answer.error_code = error
        self._request.respond(self.response)
