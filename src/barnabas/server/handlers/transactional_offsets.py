"""TxnOffsetCommit, versions 0 to 5: offsets that count when the producer's transaction commits.

They are written to `__consumer_offsets` as records of that producer and stay pending until its marker.

- Version 3 brought member, generation and instance id, so that a zombie of the group is fenced (KIP-447).
- Version 4 brought TRANSACTION_ABORTABLE, version 5 is transactions V2: the partition joins the transaction by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cluster.names import CONSUMER_OFFSETS
from barnabas.coordination.shard import Producer
from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.group import Committer
from barnabas.groups.offsets import Committed
from barnabas.groups.shard import GroupShard
from barnabas.groups.step import Step
from barnabas.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.server.transaction_admission import (
    Errors,
    admit,
    for_committer,
    has_open,
    last_marker,
    sender_of_offset_commit,
)
from barnabas.transactions.instances import Instance
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

KNOWS_LOADING = 2  # the first version whose senders try again after COORDINATOR_LOAD_IN_PROGRESS


def txn_offset_commit(
    broker: Broker, request: Request, message: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | None:
    commit = _TransactionalCommit(broker, request, message)
    if not commit.offsets:
        return commit.response
    commit.start()
    return None


class _TransactionalCommit:
    """One request: sorted, admitted to the transaction, written."""

    def __init__(self, broker: Broker, request: Request, message: TxnOffsetCommitRequest) -> None:
        self._broker = broker
        self._request = request
        self._message = message
        self._instance = Instance(message.producer_id, message.producer_epoch)
        self.offsets: list[tuple[TopicPartition, Committed]] = []
        self._answers: list[TxnOffsetCommitResponsePartition] = []
        self.response = TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name, partitions=[self._sort(topic.name, one) for one in topic.partitions]
                )
                for topic in message.topics
            ]
        )

    def _sort(
        self, topic: str, partition: TxnOffsetCommitRequestPartition
    ) -> TxnOffsetCommitResponsePartition:
        """Note an offset that can be stored; the answer for one that cannot."""
        answer = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
        state = self._broker.image.topics.get(topic)
        metadata = partition.committed_metadata or ""
        if state is None or state.partition(partition.partition_index) is None:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif len(metadata) > self._broker.coordinators.groups.settings.offset_metadata_max_bytes:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            committed = Committed(
                partition.committed_offset,
                partition.committed_leader_epoch,
                metadata,
                self._broker.clock.now_ms(),
                topic_id=state.topic_id,
            )
            self.offsets.append((TopicPartition(topic, partition.partition_index), committed))
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

    def _join(self, place: TopicPartition, log: Log) -> None:
        marker = last_marker(log, self._instance.producer_id)

        def answered(errors: Errors) -> None:
            error = errors.get(place, ErrorCode.NONE)
            if error:
                self._finish(for_committer(error))
            elif last_marker(log, self._instance.producer_id) != marker:
                self._finish(ErrorCode.INVALID_TXN_STATE)
            else:
                self._write()

        sender = sender_of_offset_commit(self._request.version)
        admit(self._broker, sender, self._message.transactional_id, self._instance, [place], answered)

    def _write(self) -> None:
        message = self._message

        def act(shard: GroupShard, step: Step) -> None:
            committer = Committer(
                message.member_id,
                message.group_instance_id,
                message.generation_id,
                self._request.version,
                in_transaction=True,
            )
            check = shard.check_commit(message.group_id, committer)
            for place, committed in self.offsets:
                check(place, committed.topic_id)
            step.records += shard.commit(message.group_id, self.offsets)

        self._broker.coordinators.groups.perform_simple(
            message.group_id, act, self._finish, producer=Producer(*self._instance)
        )

    def _finish(self, error: ErrorCode) -> None:
        if error in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH):
            error = ErrorCode.ILLEGAL_GENERATION  # no version of this API knows the others
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and self._request.version < KNOWS_LOADING:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for answer in self._answers:
            answer.error_code = error
        self._request.respond(self.response)
