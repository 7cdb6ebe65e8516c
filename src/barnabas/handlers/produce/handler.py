"""Produce requests.

Versions 3 to 13 are served (0 to 2 are advertised for librdkafka's feature check and refused, as Kafka does).
Version 13 names topics by id. Stage one appends in arrival order and never waits; with acks=all the
response waits until the high watermark, and on a single host an fsync, covers every batch.
Transactional batches are appended when the coordinator has admitted them (`admission.py`).
Batches that take long to inspect are held until a thread has done so (`replication/inspections.py`); the connection's
next requests wait meanwhile, so that nothing overtakes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.produce.admission import Admission
from barnabas.handlers.produce.appending import (
    ZSTD_SINCE,
    Appending,
    AppendingAdmitted,
    AppendingWithoutZstd,
    ProduceNeeds,
)
from barnabas.handlers.produce.delayed import NO_ACKNOWLEDGEMENT, DelayedProduce, answer_nothing
from barnabas.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.replication import ALL_REPLICAS

if TYPE_CHECKING:
    from barnabas.network.requests import Request, Result


_ACKS: Final = (NO_ACKNOWLEDGEMENT, 1, ALL_REPLICAS)


def produce(broker: ProduceNeeds, request: Request, message: ProduceRequest) -> Result[ProduceResponse]:
    acks = message.acks
    if acks not in _ACKS:
        return _refuse_all(message, ErrorCode.INVALID_REQUIRED_ACKS)
    if message.transactional_id is not None:
        return _produce_in_transaction(broker, request, message, message.transactional_id)
    kind = Appending if request.version >= ZSTD_SINCE else AppendingWithoutZstd
    batch = kind(broker, request, acks)
    responses = batch.append_all(message.topic_data)
    if batch.held or batch.unacknowledged or not acks:
        return finish(batch, message.timeout_ms, responses)
    return ProduceResponse(responses)


def _produce_in_transaction(
    broker: ProduceNeeds, request: Request, message: ProduceRequest, transactional_id: str
) -> Result[ProduceResponse]:
    """Ask the coordinator first. If that takes time, the records are copied out of the receive buffer."""
    try:
        admission = Admission(broker, request.version, transactional_id, message)
    except KafkaError as error:
        return _refuse_all(message, error.code)
    admission.ask()
    if not admission.is_decided:
        admission.keep_records(message)
        return _produce_when_admitted(broker, request, message, admission)
    return _append_admitted(broker, request, message, admission)


async def _produce_when_admitted(
    broker: ProduceNeeds, request: Request, message: ProduceRequest, admission: Admission
) -> ProduceResponse | None:
    await admission.decided()
    answer = _append_admitted(broker, request, message, admission)
    return answer if answer is None or isinstance(answer, ProduceResponse) else await answer


def _append_admitted(
    broker: ProduceNeeds, request: Request, message: ProduceRequest, admission: Admission
) -> Result[ProduceResponse]:
    batch = AppendingAdmitted(broker, request, message.acks, admission)
    return finish(batch, message.timeout_ms, batch.append_all(message.topic_data))


def finish(
    batch: Appending, timeout_ms: int, responses: list[TopicProduceResponse]
) -> Result[ProduceResponse]:
    """Respond, now or when held batches are inspected and appended ones are durable."""
    return _append_held(batch, timeout_ms, responses) if batch.held else _answer(batch, timeout_ms, responses)


async def _append_held(
    batch: Appending, timeout_ms: int, responses: list[TopicProduceResponse]
) -> ProduceResponse | None:
    """Inspect held batches in order, and append them. When settings change meanwhile, they are held again."""
    while batch.held:
        held, batch.held = batch.held, []
        for each in held:
            answer = await batch.append_held(each)
            for topic in responses:
                topic.partition_responses = [
                    answer if other is each.placeholder else other for other in topic.partition_responses
                ]
    return _answer(batch, timeout_ms, responses)


def _answer(
    batch: Appending, timeout_ms: int, responses: list[TopicProduceResponse]
) -> ProduceResponse | None:
    broker, request, acks = batch.broker, batch.request, batch.acks
    response = ProduceResponse(responses)
    if batch.unacknowledged:
        delayed = DelayedProduce(broker, request, response, acks)
        delayed.start(broker.durability, batch.unacknowledged, timeout_ms)
        return None
    if acks == NO_ACKNOWLEDGEMENT:
        answer_nothing(request, response)
        return None
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
