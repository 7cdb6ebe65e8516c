"""Fast path of Produce requests with batches for several partitions of one topic (see `fast_path.py`).

    head (ends with the number of partitions), then for each: index, length of the batch, batch

All are located before the first is appended: a request of any other form has no effects here. A batch that is refused,
or has to be inspected, is left to the regular path, with those after it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from barnabas.common.errors import KafkaError
from barnabas.common.types import ZERO_UUID, Uuid
from barnabas.handlers.produce.appending import Appending, ProduceNeeds
from barnabas.handlers.produce.handler import finish
from barnabas.log import InspectionRequiredError
from barnabas.network.requests import ELEMENTS_AT_ONCE, Request, Route
from barnabas.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.protocol.wire import read_unsigned_varint
from barnabas.records.batch import HEADER_SIZE
from barnabas.replication import ALL_REPLICAS, Partition, Partitions

if TYPE_CHECKING:
    from barnabas.log import AppendResult
    from barnabas.network import Connection
    from barnabas.network.requests import RequestDispatcher

MAX_PARTITIONS: Final = 100  # in a request; more are rare, and their number takes two bytes
MAX_KNOWN: Final = 4_096

_ANSWER: Final = struct.Struct(">ihqqq")  # index, error code, base offset, log append time, log start offset
_OFFSETS: Final = (0x0123456789ABCDEF, 0x1032547698BADCFE, 0x2301674543EFCDAB)  # unlikely ones
_INDEX_AND_LENGTH: Final = struct.Struct(">ii")
_INDEX: Final = struct.Struct(">i")

_write_answer: Final = _ANSWER.pack_into
_read_index_and_length: Final = _INDEX_AND_LENGTH.unpack_from
_read_index: Final = _INDEX.unpack_from

Located = tuple[Partition, int, memoryview]
"""A partition, its index, and its batch."""


M = TypeVar("M")


class HeadCache(dict[bytes, M]):
    """Heads and their meanings. It is cleared when it is full: clients repeat theirs."""

    __slots__ = ()

    def remember(self, head: bytes, meaning: M) -> None:
        if len(self) >= MAX_KNOWN:
            self.clear()
        self[head] = meaning


class ManyHead(NamedTuple):
    """Meaning of a head, and the response to it."""

    is_by_id: bool
    topic: str | Uuid
    acks: int
    partitions: int
    timeout_ms: int
    response: bytes
    first: int
    """Position of the first partition in the response."""
    stride: int
    """Length of each partition in the response."""


class ManyHeads:
    """Cached heads of one version of Produce, for all clients."""

    __slots__ = ("_is_flexible", "_route", "known")

    def __init__(self, route: Route) -> None:
        self._route = route
        self._is_flexible = route.flexible
        self.known: HeadCache[ManyHead] = HeadCache()

    def serve(
        self,
        head: bytes,
        dispatcher: RequestDispatcher,
        connection: Connection,
        correlation_id: int,
        buffer: memoryview,
        body: int,
        end: int,
    ) -> bytearray | None:
        """Same as `KnownHeads.serve`, for a request that begins with these bytes."""
        known = self.known.get(head)
        if known is None:
            return None
        is_by_id, topic, acks, count, _, response, position, stride = known
        broker: ProduceNeeds = dispatcher.broker  # type: ignore[assignment]
        replicas = broker.replicas
        partitions = (replicas.by_id if is_by_id else replicas.by_name).get(topic)  # type: ignore[arg-type]
        if partitions is None:
            return None
        locate = _locate_compact if self._is_flexible else _locate
        try:
            located = locate(buffer, body + len(head), end, count, partitions)
        except (KeyError, struct.error, IndexError):
            return None
        if located is None:
            return None
        counters = located[0][0].counters  # of the topic
        if counters.is_internal:
            return None
        now_ms = broker.clock.now_ms()
        answer = bytearray(response)
        results: list[AppendResult] = []
        is_written = True
        for partition, index, batch in located:
            try:
                result = partition.append(batch, now_ms, acks)
            except (InspectionRequiredError, KafkaError):
                counters.produces.value += len(results)
                request = Request(dispatcher, connection, self._route, correlation_id)
                return self._append_rest(broker, request, known, located, results, buffer[body:end])
            results.append(result)
            first_offset, last_offset, append_time, _ = result
            offsets = partition.log.offsets
            _write_answer(answer, position, index, 0, first_offset, append_time, offsets.start)
            position += stride
            if offsets.written <= last_offset:
                is_written = False
        counters.produces.value += count
        if is_written and (acks != ALL_REPLICAS or _are_durable(broker, located, results)):
            return answer
        request = Request(dispatcher, connection, self._route, correlation_id)
        appending = Appending(broker, request, acks)
        return respond(appending, known.timeout_ms, topic, _answers(appending, located, results))

    def _append_rest(
        self,
        broker: ProduceNeeds,
        request: Request,
        known: ManyHead,
        located: list[Located],
        results: list[AppendResult],
        body: memoryview,
    ) -> bytearray:
        """Append the other batches as the regular path does, and respond."""
        message, _ = self._route.decode(body, 0, len(body), ELEMENTS_AT_ONCE)
        assert isinstance(message, ProduceRequest)
        batch = Appending(broker, request, known.acks)
        answers = _answers(batch, located, results)
        answers += batch.append_from(message.topic_data[0], len(answers))
        return respond(batch, known.timeout_ms, known.topic, answers)

    def learn(self, head: bytes, message: ProduceRequest) -> None:
        """Cache a head that the encoder has confirmed."""
        (topic,) = message.topic_data
        parts = [PartitionProduceResponse(data.index, 0, *_OFFSETS) for data in topic.partition_data]
        (answer,) = self._route.write(
            0, ProduceResponse([TopicProduceResponse(topic.name, topic.topic_id, parts)])
        )
        assert isinstance(answer, bytearray)
        positions = _positions(answer, [data.index for data in topic.partition_data])
        is_by_id = topic.topic_id != ZERO_UUID
        self.known.remember(
            head,
            ManyHead(
                is_by_id,
                topic.topic_id if is_by_id else topic.name,
                message.acks,
                len(parts),
                message.timeout_ms,
                bytes(answer),
                positions[0],
                positions[1] - positions[0] if len(positions) > 1 else 0,
            ),
        )


def _positions(answer: bytearray, indexes: list[int]) -> list[int]:
    """Return where the partitions are in an encoded response. They are equally far from each other."""
    positions = []
    position = 0
    for index in indexes:
        position = answer.index(_ANSWER.pack(index, 0, *_OFFSETS), position)
        positions.append(position)
        position += _ANSWER.size
    return positions


def _locate(
    buffer: memoryview, position: int, end: int, count: int, partitions: Partitions
) -> list[Located] | None:
    """Return the batches of a request; None if it has another form."""
    located = []
    for _ in range(count):
        index, length = _read_index_and_length(buffer, position)
        if length < HEADER_SIZE:
            return None
        position += 8
        stop = position + length
        located.append((partitions[index], index, buffer[position:stop]))
        position = stop
    return located if position == end else None


def _locate_compact(
    buffer: memoryview, position: int, end: int, count: int, partitions: Partitions
) -> list[Located] | None:
    """The same for a flexible version: compact lengths, and no tagged fields."""
    located = []
    for _ in range(count):
        (index,) = _read_index(buffer, position)
        length = buffer[position + 4]
        position += 5
        if length > 0x7F:
            more = buffer[position]
            if more > 0x7F:
                length, position = read_unsigned_varint(buffer, position - 1)
            else:
                length += (more << 7) - 0x80
                position += 1
        if length <= HEADER_SIZE:
            return None
        stop = position + length - 1
        if buffer[stop]:
            return None
        located.append((partitions[index], index, buffer[position:stop]))
        position = stop + 1
    # No tagged fields of the topic and of the request.
    return located if position + 2 == end and not buffer[position] and not buffer[position + 1] else None


def _are_durable(broker: ProduceNeeds, located: list[Located], results: list[AppendResult]) -> bool:
    is_durable = broker.durability.is_durable
    return all(
        is_durable(partition, result.last_offset + 1)
        for (partition, _, _), result in zip(located, results, strict=True)
    )


def _answers(
    batch: Appending, located: list[Located], results: list[AppendResult]
) -> list[PartitionProduceResponse]:
    """Return the responses for the batches that were appended, which are the first ones."""
    return [
        batch.appended(partition, index, result)
        for (partition, index, _), result in zip(located, results, strict=False)
    ]


def respond(
    batch: Appending, timeout_ms: int, topic: str | Uuid, answers: list[PartitionProduceResponse]
) -> bytearray:
    """Respond as the regular path does, now or when the batches are durable; return the result of `serve`."""
    name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
    request = batch.request
    response = finish(batch, timeout_ms, [TopicProduceResponse(name, topic_id, answers)])
    request.dispatcher.settle(request.connection, request, response)
    return bytearray()
