"""Fast path of Produce requests of one topic: served without decoding the request or encoding the response.

A producer repeats the same head: transactional id, acks, timeout, topic, partition. Only the batch after it
differs. So a request with a new head is decoded, and the head is cached, with its meaning and with the
response, in which only offsets and a time are missing. A request that begins with a cached head followed by
one batch, and nothing else, means the same: its batch is appended at once.

The head of a request of several partitions ends with their number, because producers send varying ones. An index, a
length and a batch follow for each, and its response has as many parts of equal length (`ManyHeads`).

The head is derived from the codec: it is everything before the length of the records, or the first index, when the
decoded request is encoded again, and it is cached only if that gives the same bytes. All other requests
(transactions, acks=0, internal topics) take the regular path (`handler.py`), and so do batches that are refused or
must be inspected.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from barnabas.common.errors import KafkaError
from barnabas.common.types import ZERO_UUID
from barnabas.handlers.produce.appending import ZSTD_SINCE, Appending, ProduceNeeds
from barnabas.handlers.produce.many_heads import MAX_PARTITIONS, HeadCache, ManyHeads, respond
from barnabas.log import InspectionRequiredError
from barnabas.network.requests import Request, Route
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
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

MAX_HEAD: Final = 512  # a topic name has up to 249 bytes

_OFFSETS: Final = Struct(">qqq")  # base offset, log append time, log start offset
_UNLIKELY: Final = (0x0123456789ABCDEF, 0x1032547698BADCFE, 0x2301674543EFCDAB)
_LENGTH: Final = Struct(">i")
_INDEX_BYTES: Final = 4
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

    __slots__ = ("_is_flexible", "_known", "_many", "_route")

    def __init__(self, route: Route) -> None:
        self._route = route
        self._is_flexible = route.flexible
        self._known: HeadCache[Known] = HeadCache()
        self._many = ManyHeads(route)

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
        head = buffer[body:start].tobytes()
        known = self._known.get(head)
        if known is None:
            return self._many.serve(head, dispatcher, connection, correlation_id, buffer, body, end)
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
            result = partition.append(buffer[start:end], broker.clock.now_ms(), acks)
        except InspectionRequiredError:
            return None
        except KafkaError as error:
            partition.counters.produces.value += 1
            request = Request(dispatcher, connection, self._route, correlation_id)
            batch = Appending(broker, request, acks)
            return respond(batch, timeout_ms, topic, [batch.refuse(partition, index, error)])
        partition.counters.produces.value += 1
        first_offset, last_offset, append_time, _ = result
        if broker.durability.is_durable(partition, last_offset + 1, acks):
            answer = bytearray(answered)
            _write_offsets(answer, topic_index, first_offset, append_time, partition.log.offsets.start)
            return answer
        request = Request(dispatcher, connection, self._route, correlation_id)
        batch = Appending(broker, request, acks)
        return respond(batch, timeout_ms, topic, [batch.appended(partition, index, result)])

    def learn(self, message: ProduceRequest, buffer: memoryview, body: int, end: int, last: int) -> int:
        """Cache the head of a decoded request; return its length, 0 if it is not cached.

        `last` is the length of the head that the connection has sent before. A connection whose requests have one
        partition or several gets heads that end with the number of partitions, which all have the same length.
        """
        if len(message.topic_data) != 1 or message.transactional_id is not None:
            return 0
        partitions = message.topic_data[0].partition_data
        length = self._length_of_head(partitions, end - body)
        if not 0 < length <= MAX_HEAD or message.acks not in (1, ALL_REPLICAS):
            return 0
        if len(partitions) == 1:
            head = buffer[body : body + length + _INDEX_BYTES].tobytes()
            is_known = head in self._known
            if not is_known and not self._remember(head, message, buffer[body:end]):
                return 0
            if not is_known or not last:
                return len(head)
        head = buffer[body : body + length].tobytes()
        if head not in self._many.known:
            if encode(message, self._route.version) != buffer[body:end]:
                return 0
            self._many.learn(head, message)
        return length

    def _length_of_head(self, partitions: list[PartitionProduceData], size: int) -> int:
        """Return the length of what precedes the partitions in a request; 0 if the regular path serves it."""
        if not 0 < len(partitions) <= MAX_PARTITIONS:
            return 0
        size -= 2 if self._is_flexible else 0  # tagged fields of the topic and of the request
        for data in partitions:
            records = data.records
            if records is None:
                return 0
            size -= _INDEX_BYTES + len(records)
            size -= len(unsigned_varint(len(records) + 1)) + 1 if self._is_flexible else _LENGTH.size
        return size

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
        meaning = (
            is_by_id,
            topic.topic_id if is_by_id else topic.name,
            data.index,
            message.acks,
            bytes(answer),
            answer.index(_OFFSETS.pack(*_UNLIKELY)),
            message.timeout_ms,
        )
        self._known.remember(head, meaning)
        return True
