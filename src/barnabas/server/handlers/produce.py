"""Produce: append what clients send, and answer when it is as safe as they asked for.

Versions 3 to 13 are served (0 to 2 are advertised for librdkafka's feature check and refused, as Kafka does).
Version 13 names topics by id. Stage one appends in arrival order and never waits; with acks=all the
answer is held back until the high watermark, and on a lone machine an fsync, has covered every batch.
Batches of a transaction are appended when its coordinator has admitted them (`server/transactional_produce.py`).
Batches that take long to look into are held until a thread has done so (`server/inspecting.py`); the connection's
next requests wait meanwhile, so that nothing overtakes them.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.clock import Timer
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.inspection import Inspected, Unchecked
from barnabas.log.log import Origin
from barnabas.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.records.batch import HEADER_SIZE, read_header
from barnabas.records.compression import Codec
from barnabas.records.record import InvalidRecords
from barnabas.replication.partition import ALL_REPLICAS, Partition
from barnabas.server.transactional_produce import Admission
from barnabas.types import ZERO_UUID

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

NO_ACKNOWLEDGEMENT = 0
ZSTD_SINCE = 7  # KIP-110
CURRENT_LEADER_SINCE = 10  # KIP-951: a client learns at once where to go
INTERNAL_WRITER = "__admin_client"  # the client id with which Kafka lets anybody write to internal topics

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
"""Errors with which Kafka tells where the log starts: a producer can see that its old records are gone."""


REFUSED_FOR_WHAT_IT_IS = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
    }
)
"""Errors that say something about a batch, and nothing about the partition or the producer."""


def produce(
    broker: Broker, request: Request, message: ProduceRequest
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    acks = message.acks
    if acks not in (NO_ACKNOWLEDGEMENT, 1, ALL_REPLICAS):
        return _refuse_all(message, ErrorCode.INVALID_REQUIRED_ACKS)
    if message.transactional_id is not None:
        return _produce_in_transaction(broker, request, message, message.transactional_id)
    kind = _Appending if request.version >= ZSTD_SINCE else _AppendingWithoutZstd
    return _append_all(kind(broker, request, acks), message)


def _produce_in_transaction(
    broker: Broker, request: Request, message: ProduceRequest, transactional_id: str
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    """Ask the coordinator first. If that takes time, the records are copied out of the receive buffer."""
    try:
        admission = Admission(broker, request.version, transactional_id, message)
    except KafkaError as error:
        return _refuse_all(message, error.code)
    admission.ask()
    if not admission.is_decided:
        admission.keep_records(message)
        return _produce_when_admitted(broker, request, message, admission)
    return _append_all(_AppendingAdmitted(broker, request, message.acks, admission), message)


async def _produce_when_admitted(
    broker: Broker, request: Request, message: ProduceRequest, admission: Admission
) -> ProduceResponse | None:
    await admission.decided()
    answer = _append_all(_AppendingAdmitted(broker, request, message.acks, admission), message)
    return answer if answer is None or isinstance(answer, ProduceResponse) else await answer


def _append_all(
    batch: _Appending, message: ProduceRequest
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    responses = [batch.append_topic(topic) for topic in message.topic_data]
    if batch.held:
        return _append_held(batch, message, responses)
    if batch.unsafe or batch.acks == NO_ACKNOWLEDGEMENT:
        return _answer(batch, message, responses)
    return ProduceResponse(responses)


async def _append_held(
    batch: _Appending, message: ProduceRequest, responses: list[TopicProduceResponse]
) -> ProduceResponse | None:
    """Look into what was held, in order, and append it. When settings change meanwhile, it is held once more."""
    while batch.held:
        held, batch.held = batch.held, []
        for each in held:
            answer = await batch.append_held(each)
            for topic in responses:
                topic.partition_responses = [
                    answer if other is each.placeholder else other for other in topic.partition_responses
                ]
    return _answer(batch, message, responses)


def _answer(
    batch: _Appending, message: ProduceRequest, responses: list[TopicProduceResponse]
) -> ProduceResponse | None:
    broker, request, acks = batch.broker, batch.request, batch.acks
    if acks == NO_ACKNOWLEDGEMENT:
        _answer_nothing(request, responses)
        return None
    response = ProduceResponse(responses)
    if batch.unsafe:
        Acknowledgement(request, response, batch.unsafe).wait(broker, message.timeout_ms)
        return None
    return response


class _Held(NamedTuple):
    """A batch that waits to be looked into, or for one that does; the placeholder stands where its answer will."""

    partition: Partition
    data: PartitionProduceData
    unchecked: Unchecked | None
    placeholder: PartitionProduceResponse


class _Appending:
    """Stage one of a produce request: append each batch, note which ones are not yet safe."""

    __slots__ = ("acks", "broker", "held", "inspected", "now_ms", "request", "unsafe")

    origin = Origin.CLIENT

    def __init__(self, broker: Broker, request: Request, acks: int) -> None:
        self.broker = broker
        self.request = request
        self.acks = acks
        self.now_ms = broker.clock.now_ms()
        self.unsafe: list[tuple[Partition, int, PartitionProduceResponse]] = []
        self.held: list[_Held] = []
        self.inspected: Inspected | None = None

    def append_topic(self, topic: TopicProduceData) -> TopicProduceResponse:
        replicas = self.broker.replicas
        by_id = topic.topic_id != ZERO_UUID
        partitions = replicas.by_id.get(topic.topic_id) if by_id else replicas.by_name.get(topic.name)
        answers = [
            self._append(partition, data)
            if partitions is not None and (partition := partitions.get(data.index)) is not None
            else self._missing(topic, data)
            for data in topic.partition_data
        ]
        return TopicProduceResponse(topic.name, topic.topic_id, answers)  # by position: it is half the cost

    def _missing(self, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
        error = self.broker.replicas.why_missing(topic.name, topic.topic_id, data.index)
        return PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)

    def _append(self, partition: Partition, data: PartitionProduceData) -> PartitionProduceResponse:
        counters = partition.counters
        counters.produces.value += 1
        try:
            if counters.is_internal and not self._may_write_internal():
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    "clients may not write to internal topics (barnabas.internal.topics.writable)",
                )
            if data.records is None:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD, "a produce request must carry one batch per partition"
                )
            if self.held and any(each.partition is partition for each in self.held):
                return self._hold(partition, data, None)  # it must not overtake the one that waits
            result = partition.append(data.records, self.now_ms, self.acks, self.origin, self.inspected)
        except Unchecked as unchecked:
            return self._hold(partition, data, unchecked)
        except KafkaError as error:
            return self._refuse(partition, data, error)
        log = partition.log
        response = PartitionProduceResponse(
            data.index, ErrorCode.NONE, result.first_offset, result.log_append_time, log.log_start_offset
        )
        if self.acks == ALL_REPLICAS:
            end = result.last_offset + 1
            if log.high_watermark < end or (self.broker.must_flush(partition) and log.flushed_offset < end):
                self.unsafe.append((partition, end, response))
        return response

    def _refuse(
        self, partition: Partition, data: PartitionProduceData, error: KafkaError
    ) -> PartitionProduceResponse:
        partition.counters.failed_produces.value += 1
        if error.code in REFUSED_FOR_WHAT_IT_IS:
            self.broker.inspections.note_refusal(error.code.name)
        return _failure(partition, data.index, error, self.request.version)

    # -- what takes long to look into -----------------------------------------------------------------

    def _hold(
        self, partition: Partition, data: PartitionProduceData, unchecked: Unchecked | None
    ) -> PartitionProduceResponse:
        """Keep the batch, copied out of the receive buffer, which is used again while we wait."""
        assert data.records is not None
        partition.counters.produces.value -= 1  # it will be counted when it comes again
        if self.inspected is None:
            data.records = memoryview(bytearray(data.records))
        placeholder = PartitionProduceResponse(index=data.index)
        self.held.append(_Held(partition, data, unchecked, placeholder))
        return placeholder

    async def append_held(self, each: _Held) -> PartitionProduceResponse:
        partition, data, unchecked, _ = each
        self.inspected = None
        if unchecked is not None and data.records is not None:
            batch = memoryview(data.records)
            try:
                self.inspected = await self.broker.inspections.inspect(batch, unchecked, self.now_ms)
            except KafkaError as error:
                partition.counters.produces.value += 1
                return self._refuse(partition, data, error)
        self.now_ms = self.broker.clock.now_ms()
        return self._append(partition, data)

    def _may_write_internal(self) -> bool:
        """A client id is no proof of anything, so Kafka's rule counts only where somebody has asked for it."""
        allowed = self.broker.config["barnabas.internal.topics.writable"]
        return bool(allowed) and self.request.client_id == INTERNAL_WRITER


class _AppendingWithoutZstd(_Appending):
    """The same for a version whose clients could not know of zstd."""

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


class _AppendingAdmitted(_Appending):
    """The same for a request of a transactional producer, once it is known which batches may be appended."""

    __slots__ = ("_admission",)

    origin = Origin.TRANSACTION

    def __init__(self, broker: Broker, request: Request, acks: int, admission: Admission) -> None:
        super().__init__(broker, request, acks)
        self._admission = admission

    def _append(self, partition: Partition, data: PartitionProduceData) -> PartitionProduceResponse:
        refusal = self._admission.refusal(partition)
        if refusal is not None:
            partition.counters.produces.value += 1
            partition.counters.failed_produces.value += 1
            return _failure(partition, data.index, refusal, self.request.version)
        return super()._append(partition, data)


class Acknowledgement:
    """Stage two of acks=all: answer when every batch is committed and flushed, or at the timeout."""

    __slots__ = ("_open", "_request", "_response", "_timer")

    def __init__(
        self,
        request: Request,
        response: ProduceResponse,
        unsafe: list[tuple[Partition, int, PartitionProduceResponse]],
    ) -> None:
        self._request = request
        self._response = response
        self._open = {id(answer): (partition, end, answer) for partition, end, answer in unsafe}
        self._timer: Timer | None = None

    def wait(self, broker: Broker, timeout_ms: int) -> None:
        self._request.within = max(timeout_ms, 0) / 1000
        self._timer = broker.timers.call_later(self._request.within, self._time_out)
        for partition, end, answer in list(self._open.values()):
            self._wait_for(broker, partition, end, answer)

    def _wait_for(
        self, broker: Broker, partition: Partition, end: int, answer: PartitionProduceResponse
    ) -> None:
        def committed(error: ErrorCode) -> None:
            if error or not broker.must_flush(partition):
                self._settle(answer, error)
            else:
                broker.flusher.when_flushed(partition.log, end, lambda error: self._settle(answer, error))

        partition.when_committed(end, committed)

    def _settle(self, answer: PartitionProduceResponse, error: ErrorCode) -> None:
        if self._open.pop(id(answer), None) is None:
            return  # the timeout was faster
        if error:
            answer.error_code = error
            answer.base_offset = -1
        if not self._open:
            self._finish()

    def _time_out(self) -> None:
        for _, _, answer in self._open.values():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._open.clear()
        self._finish()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._request.respond(self._response)


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
    # A fenced leader refuses too, and does not know who leads now.
    moved = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and not partition.is_leader
    if moved and version >= CURRENT_LEADER_SINCE and partition.state is not None:
        response.current_leader = LeaderIdAndEpoch(
            leader_id=partition.state.leader, leader_epoch=partition.leader_epoch
        )
    return response


def _refuse_all(message: ProduceRequest, error: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ]
    )


def _answer_nothing(request: Request, responses: list[TopicProduceResponse]) -> None:
    """acks=0 has no answer; a closed connection is the only way to tell the client that it failed."""
    if any(answer.error_code for topic in responses for answer in topic.partition_responses):
        request.connection.close("a produce request with acks=0 failed")
    else:
        request.respond_nothing()
