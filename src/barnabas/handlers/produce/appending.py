"""Stage one of a produce request: each batch is appended, held for inspection, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from barnabas.common.clock import Clock
from barnabas.common.errors import NO_ERROR, ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID
from barnabas.handlers.produce.admission import Admission, AdmissionNeeds
from barnabas.handlers.produce.delayed import Unacknowledged
from barnabas.log import CLIENT, AppendResult, Inspected, InspectionRequiredError, Origin
from barnabas.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.records import InvalidRecords
from barnabas.records.batch import HEADER_SIZE, read_header
from barnabas.records.compression import Codec
from barnabas.replication import Durability, Inspections, Partition, TimerLoop
from barnabas.security import BROKER

if TYPE_CHECKING:
    from barnabas.network.requests import Request

ZSTD_SINCE: Final = 7  # KIP-110
CURRENT_LEADER_SINCE = 10  # KIP-951: the response names the new leader
INTERNAL_WRITER = "__admin_client"  # Kafka's client id that may write to internal topics

REFUSED_BY_THE_LOG = frozenset(
    {
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
"""Errors with which Kafka returns the log start: a producer can see that its old records were deleted."""


REJECTED_BATCH = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
    }
)
"""Errors about the batch itself, not about the partition or the producer."""


class ProduceNeeds(AdmissionNeeds, TimerLoop, Protocol):
    """Broker attributes used by Produce."""

    @property
    def clock(self) -> Clock: ...

    @property
    def inspections(self) -> Inspections: ...

    @property
    def durability(self) -> Durability: ...


class PendingBatch(NamedTuple):
    """A batch that waits for inspection, or behind one that does; the placeholder marks its position in the
    response.
    """

    partition: Partition
    data: PartitionProduceData
    unchecked: InspectionRequiredError | None
    placeholder: PartitionProduceResponse


class Appending:
    """Stage one of a produce request: append each batch, collect those that are not durable yet."""

    __slots__ = ("acks", "broker", "held", "inspected", "now_ms", "origin", "request", "unacknowledged")

    def __init__(self, broker: ProduceNeeds, request: Request, acks: int, origin: Origin = CLIENT) -> None:
        self.broker = broker
        self.origin = origin
        self.request = request
        self.acks = acks
        self.now_ms = broker.clock.now_ms()
        self.unacknowledged: list[Unacknowledged] = []
        self.held: list[PendingBatch] = []
        self.inspected: Inspected | None = None

    def append_all(self, topics: list[TopicProduceData]) -> list[TopicProduceResponse]:
        """Append all batches of a request, in one pass."""
        replicas, append = self.broker.replicas, self._append
        responses = []
        for topic in topics:
            name, topic_id = topic.name, topic.topic_id
            partitions = replicas.by_name.get(name) if topic_id == ZERO_UUID else replicas.by_id.get(topic_id)
            answers = []
            for data in topic.partition_data:
                partition = partitions.get(data.index) if partitions is not None else None
                answers.append(
                    append(partition, data) if partition is not None else self._missing(topic, data)
                )
            # Positional arguments, here and below: half the cost.
            responses.append(TopicProduceResponse(name, topic_id, answers))
        return responses

    def append_from(self, topic: TopicProduceData, first: int) -> list[PartitionProduceResponse]:
        """Append the batches of a topic that the fast path has left; their partitions exist."""
        replicas = self.broker.replicas
        is_by_name = topic.topic_id == ZERO_UUID
        partitions = replicas.by_name[topic.name] if is_by_name else replicas.by_id[topic.topic_id]
        return [self._append(partitions[data.index], data) for data in topic.partition_data[first:]]

    def _missing(self, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
        error = self.broker.replicas.why_missing(topic.name, topic.topic_id, data.index)
        return PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)

    def _append(self, partition: Partition, data: PartitionProduceData) -> PartitionProduceResponse:
        counters, records = partition.counters, data.records
        counters.produces.value += 1
        try:
            if counters.is_internal and not self._may_write_internal(is_audit=counters.is_audit):
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    "clients may not write to internal topics (barnabas.internal.topics.writable)",
                )
            if records is None:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD, "a produce request must carry one batch per partition"
                )
            if self.held and any(each.partition is partition for each in self.held):
                return self._hold(partition, data, None)  # it must not overtake the waiting batch
            result = partition.append(records, self.now_ms, self.acks, self.origin, self.inspected)
        except InspectionRequiredError as unchecked:
            return self._hold(partition, data, unchecked)
        except KafkaError as error:
            return self.refuse(partition, data.index, error)
        return self.appended(partition, data.index, result)

    def appended(self, partition: Partition, index: int, result: AppendResult) -> PartitionProduceResponse:
        """Return the response for a batch in the log, and collect it if it is not durable yet."""
        first_offset, last_offset, append_time, _ = result
        response = PartitionProduceResponse(
            index, NO_ERROR, first_offset, append_time, partition.log.offsets.start
        )
        if not self.broker.durability.is_durable(partition, last_offset + 1, self.acks):
            self.unacknowledged.append((partition, last_offset + 1, response))
        return response

    def refuse(self, partition: Partition, index: int, error: KafkaError) -> PartitionProduceResponse:
        """Count a batch that the partition has refused, and return its response."""
        partition.counters.failed_produces.value += 1
        if error.code in REJECTED_BATCH:
            self.broker.inspections.note_refusal(error.code.name)
        return _failure(partition, index, error, self.request.version)

    # -- batches that take long to inspect ------------------------------------------------------------

    def _hold(
        self, partition: Partition, data: PartitionProduceData, unchecked: InspectionRequiredError | None
    ) -> PartitionProduceResponse:
        """Keep the batch, copied out of the receive buffer, which is reused meanwhile."""
        assert data.records is not None
        partition.counters.produces.value -= 1  # it is counted when it is appended
        if self.inspected is None:
            data.records = memoryview(bytearray(data.records))
        placeholder = PartitionProduceResponse(index=data.index)
        self.held.append(PendingBatch(partition, data, unchecked, placeholder))
        return placeholder

    async def append_held(self, each: PendingBatch) -> PartitionProduceResponse:
        partition, data, unchecked, _ = each
        self.inspected = None
        if unchecked is not None and data.records is not None:
            batch = memoryview(data.records)
            try:
                self.inspected = await self.broker.inspections.inspect(batch, unchecked, self.now_ms)
            except KafkaError as error:
                partition.counters.produces.value += 1
                return self.refuse(partition, data.index, error)
        self.now_ms = self.broker.clock.now_ms()
        return self._append(partition, data)

    def _may_write_internal(self, *, is_audit: bool) -> bool:
        """A client id does not prove anything, so Kafka's rule applies only where it is configured.

        Only brokers write the audit log, whatever is configured.
        """
        if is_audit:
            return self.request.context.principal == BROKER or self.request.context.is_peer
        allowed = self.broker.config["barnabas.internal.topics.writable"]
        return bool(allowed) and self.request.client_id == INTERNAL_WRITER


class AppendingWithoutZstd(Appending):
    """The same for versions whose clients do not support zstd."""

    __slots__ = ()

    def _append(self, partition: Partition, data: PartitionProduceData) -> PartitionProduceResponse:
        records = data.records or b""
        if len(records) >= HEADER_SIZE and read_header(records).compression == Codec.ZSTD:
            partition.counters.produces.value += 1
            partition.counters.failed_produces.value += 1
            error = KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd needs version {ZSTD_SINCE} of Produce or later",
            )
            return _failure(partition, data.index, error, self.request.version)
        return super()._append(partition, data)


class AppendingAdmitted(Appending):
    """The same for a transactional request after admission."""

    __slots__ = ("_admission",)

    def __init__(self, broker: ProduceNeeds, request: Request, acks: int, admission: Admission) -> None:
        super().__init__(broker, request, acks, Origin.TRANSACTION)
        self._admission = admission

    def _append(self, partition: Partition, data: PartitionProduceData) -> PartitionProduceResponse:
        refusal = self._admission.refusal(partition)
        if refusal is not None:
            partition.counters.produces.value += 1
            partition.counters.failed_produces.value += 1
            return _failure(partition, data.index, refusal, self.request.version)
        return super()._append(partition, data)


def _failure(partition: Partition, index: int, error: KafkaError, version: int) -> PartitionProduceResponse:
    response = PartitionProduceResponse(
        index=index, error_code=error.code, base_offset=-1, error_message=error.message or None
    )
    if isinstance(error, InvalidRecords) or error.code in REFUSED_BY_THE_LOG:
        response.log_start_offset = partition.log.log_start_offset
    if isinstance(error, InvalidRecords):
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
            for at, text in error.record_errors
        ]
    # A fenced leader rejects too, and does not know the current leader.
    moved = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and not partition.is_leader
    if moved and version >= CURRENT_LEADER_SINCE and partition.state is not None:
        response.current_leader = LeaderIdAndEpoch(
            leader_id=partition.state.leader, leader_epoch=partition.leader_epoch
        )
    return response
