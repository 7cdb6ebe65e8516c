"""Fast path of Produce requests with one batch: served without decoding the request or encoding the response.

A producer repeats the same head: transactional id, acks, timeout, topic, partition. Only the batch after it
differs. So a request with a new head is decoded, and the head is cached, with its meaning and with the
response, in which only offsets and a time are missing. A request that begins with a cached head followed by
one batch, and nothing else, means the same: its batch is appended at once.

The head is derived from the codec: it is everything before the length of the records when the decoded request
is encoded again, and it is cached only if that gives the same bytes. All other requests (transactions,
acks=0, internal topics, batches that must be inspected) take the regular path (`handler.py`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from barnabas.common.errors import NO_ERROR, KafkaError
from barnabas.common.types import ZERO_UUID
from barnabas.handlers.produce.appending import ZSTD_SINCE, ProduceNeeds, refused
from barnabas.handlers.produce.delayed import DelayedProduce
from barnabas.log import InspectionRequiredError
from barnabas.network.requests import Request, Route
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.protocol.wire import read_unsigned_varint, unsigned_varint
from barnabas.records.batch import HEADER_SIZE
from barnabas.replication import ALL_REPLICAS

if TYPE_CHECKING:
    from barnabas.network import Connection
    from barnabas.network.requests import RequestDispatcher

MAX_KNOWN: Final = 4_096
MAX_HEAD: Final = 512  # a topic name has up to 249 bytes

_OFFSETS: Final = Struct(">qqq")  # base offset, log append time, log start offset
_UNLIKELY: Final = (0x0123456789ABCDEF, 0x1032547698BADCFE, 0x2301674543EFCDAB)
_LENGTH: Final = Struct(">i")
_NO_TAGS: Final = bytes(3)  # of the partition, the topic and the request, in flexible versions

_write_offsets: Final = _OFFSETS.pack_into
_read_length: Final = _LENGTH.unpack_from

Known = tuple[bool, Any, int, int, bytes, int, int]
"""Whether the topic is named by id, the name or id, the partition, acks, the response, the position of its
offsets, and the timeout.
"""


def known_heads(route: Route) -> KnownHeads | None:
    """Return the fast path of a version; older ones lack response fields, or must check for zstd."""
    return KnownHeads(route) if route.version >= ZSTD_SINCE else None


class KnownHeads:
    """Cached heads of one version of Produce, for all clients."""

    __slots__ = ("_is_flexible", "_known", "_route")

    def __init__(self, route: Route) -> None:
        self._route = route
        self._is_flexible = route.flexible
        self._known: dict[bytes, Known] = {}

    def serve(
        self,
        dispatcher: RequestDispatcher,
        connection: Connection,
        correlation_id: int,
        buffer: memoryview,
        body: int,
        end: int,
    ) -> bytearray | None:
        """Return the response without its correlation id; empty if the batch was refused, or is not durable yet;
        None without side effects.
        """
        start = body + connection.known_head
        known = self._known.get(buffer[body:start].tobytes())
        if known is None:
            return None
        if self._is_flexible:
            length, start = read_unsigned_varint(buffer, start)
            length -= 1
            end -= 3
            if buffer[end : end + 3] != _NO_TAGS:
                return None
        else:
            (length,) = _read_length(buffer, start)
            start += 4
        if length != end - start or length < HEADER_SIZE:
            return None
        is_by_id, topic, index, acks, answered, topic_index, timeout_ms = known
        broker: ProduceNeeds = dispatcher.broker  # type: ignore[assignment]
        replicas = broker.replicas
        try:
            partition = (replicas.by_id if is_by_id else replicas.by_name)[topic][index]
        except KeyError:
            return None
        if partition.counters.is_internal:
            return None
        try:
            first_offset, last_offset, append_time, _ = partition.append(
                buffer[start:end], broker.clock.now_ms(), acks
            )
        except InspectionRequiredError:
            return None
        except KafkaError as error:
            partition.counters.produces.value += 1
            request = Request(dispatcher, connection, self._route, correlation_id)
            refusal = refused(broker.inspections, partition, index, error, request.version)
            request.respond(_response(known, refusal))
            return _settled(request)
        partition.counters.produces.value += 1
        start_offset = partition.log.offsets.start
        if broker.durability.is_durable(partition, last_offset + 1, acks):
            answer = bytearray(answered)
            _write_offsets(answer, topic_index, first_offset, append_time, start_offset)
            return answer
        request = Request(dispatcher, connection, self._route, correlation_id)
        waiting = PartitionProduceResponse(index, NO_ERROR, first_offset, append_time, start_offset)
        delayed = DelayedProduce(broker, request, _response(known, waiting), acks)
        delayed.start(broker.durability, [(partition, last_offset + 1, waiting)], timeout_ms)
        return _settled(request)

    def learn(self, message: ProduceRequest, buffer: memoryview, body: int, end: int) -> int:
        """Cache the head of a decoded request; return its length, 0 if it is not cached."""
        if len(message.topic_data) != 1 or len(message.topic_data[0].partition_data) != 1:
            return 0
        records = message.topic_data[0].partition_data[0].records
        if records is None or message.transactional_id is not None or message.acks not in (1, ALL_REPLICAS):
            return 0
        behind = _NO_TAGS if self._is_flexible else b""
        length = _length_of(records, self._is_flexible)
        head_length = end - body - len(length) - len(records) - len(behind)
        if not 0 < head_length <= MAX_HEAD:
            return 0
        head = buffer[body : body + head_length].tobytes()
        if head not in self._known and not self._remember(head, message, buffer[body:end]):
            return 0
        return head_length

    def _remember(self, head: bytes, message: ProduceRequest, request: memoryview) -> bool:
        if encode(message, self._route.version) != request:
            return False  # it has unknown fields, or a different encoding
        (topic,) = message.topic_data
        (data,) = topic.partition_data
        response = PartitionProduceResponse(data.index, 0, *_UNLIKELY)
        (answer,) = self._route.write(
            0, ProduceResponse([TopicProduceResponse(topic.name, topic.topic_id, [response])])
        )
        assert isinstance(answer, bytearray)
        is_by_id = topic.topic_id != ZERO_UUID
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[head] = (
            is_by_id,
            topic.topic_id if is_by_id else topic.name,
            data.index,
            message.acks,
            bytes(answer),
            answer.index(_OFFSETS.pack(*_UNLIKELY)),
            message.timeout_ms,
        )
        return True


def _length_of(records: memoryview, is_flexible: bool) -> bytes:
    return unsigned_varint(len(records) + 1) if is_flexible else _LENGTH.pack(len(records))


def _settled(request: Request) -> bytearray:
    request.dispatcher.settle(request.connection, request, None)
    return bytearray()


def _response(known: Known, answer: PartitionProduceResponse) -> ProduceResponse:
    is_by_id, topic = known[:2]
    name, topic_id = ("", topic) if is_by_id else (topic, ZERO_UUID)
    return ProduceResponse([TopicProduceResponse(name, topic_id, [answer])])
