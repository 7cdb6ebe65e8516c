"""Malformed bytes get the same response as from Apache Kafka 4.3.1 and affect no other client."""

from __future__ import annotations

import logging
import random
import resource
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.handlers.table import HANDLERS
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.protocol.wire import MAX_ARRAY_ELEMENTS, MAX_TAGGED_FIELDS, unsigned_varint
from barnabas.records.batch import write_crc
from barnabas.records.builder import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.testing import EmbeddedBroker
from tests.clients.conftest import consume, produce
from tests.support.builders.messages import sample
from tests.support.clients import RawConnection, frame_of

MUTATIONS = 10_000
FRAMES_PER_VERSION = 3
PRODUCE_VERSION = 11


@pytest.fixture
def connection(broker: EmbeddedBroker) -> Iterator[RawConnection]:
    with RawConnection(broker.port) as opened:
        yield opened


def batch(count: int = 2, **settings: object) -> bytearray:
    now = int(time.time() * 1000)
    return build_batch([Record(number, now, b"key", b"value") for number in range(count)], **settings)  # type: ignore[arg-type]


def send_batch(
    connection: RawConnection,
    topic: str,
    records: bytes | bytearray | None,
    acks: int = 1,
    partition: int = 0,
) -> PartitionProduceResponse:
    data = PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    response = connection.ask(request, PRODUCE_VERSION)
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]


def changed(position: int, value: bytes, *, sign: bool = True) -> bytearray:
    """A good batch with some bytes replaced; signed again, so that only they are wrong."""
    damaged = batch()
    damaged[position : position + len(value)] = value
    if sign:
        write_crc(damaged, 0, len(damaged))
    return damaged


def compressed_garbage(codec: Codec) -> bytearray:
    damaged = batch(50, compression=codec)
    damaged[61:] = bytes(len(damaged) - 61)
    write_crc(damaged, 0, len(damaged))
    return damaged


FUTURE = struct.pack(">q", 4_000_000_000_000)

BAD_BATCHES: dict[str, tuple[Callable[[], bytes | bytearray | None], ErrorCode]] = {
    "a wrong CRC": (lambda: changed(70, b"!", sign=False), ErrorCode.CORRUPT_MESSAGE),
    "magic 3": (lambda: changed(16, b"\x03"), ErrorCode.CORRUPT_MESSAGE),
    "a length that is too short": (lambda: changed(8, struct.pack(">i", 10)), ErrorCode.CORRUPT_MESSAGE),
    "a negative length": (lambda: changed(8, struct.pack(">i", -1)), ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (lambda: changed(16, b"\x01"), ErrorCode.INVALID_RECORD),
    "magic 0": (lambda: changed(16, b"\x00"), ErrorCode.INVALID_RECORD),
    "a length beyond the end": (lambda: changed(8, struct.pack(">i", 9999)), ErrorCode.INVALID_RECORD),
    "two batches": (lambda: batch() + batch(), ErrorCode.INVALID_RECORD),
    "nothing": (lambda: b"", ErrorCode.INVALID_RECORD),
    "null": (lambda: None, ErrorCode.INVALID_RECORD),
    "a control batch": (lambda: batch(1, control=True), ErrorCode.INVALID_RECORD),
    "a count that does not match": (lambda: changed(57, struct.pack(">i", 5)), ErrorCode.INVALID_RECORD),
    "a timestamp far ahead": (lambda: changed(35, FUTURE), ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_gets_kafkas_own_error_and_is_not_stored(
    connection: RawConnection, topic: str, broker: EmbeddedBroker, case: str
) -> None:
    make, error = BAD_BATCHES[case]
    assert ErrorCode(send_batch(connection, topic, make()).error_code) == error
    assert send_batch(connection, topic, batch()).base_offset == 0


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_garbage_is_rejected_where_records_are_inspected(
    connection: RawConnection, broker: EmbeddedBroker, codec: Codec
) -> None:
    topic = broker.create_topic(configs={"barnabas.validate.records": "all"})
    assert send_batch(connection, topic, compressed_garbage(codec)).error_code == ErrorCode.INVALID_RECORD


def test_a_record_without_a_key_is_refused_on_a_compacted_topic(
    connection: RawConnection, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic(configs={"cleanup.policy": "compact"})
    now = int(time.time() * 1000)
    records = build_batch([Record(0, now, b"key", b"v"), Record(1, now, None, b"v")])
    answer = send_batch(connection, topic, records)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1]


def test_unknown_topics_partitions_and_acks_get_errors(connection: RawConnection, topic: str) -> None:
    assert send_batch(connection, "no-such-topic", batch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (
        send_batch(connection, topic, batch(), partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert (
        send_batch(connection, topic, batch(), partition=-1).error_code
        == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert send_batch(connection, topic, batch(), acks=7).error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("offset", [-1, 5, 2**62])
def test_fetch_out_of_range_gets_an_error(connection: RawConnection, topic: str, offset: int) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    request = FetchRequest(max_bytes=1000, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    response = connection.ask(request, 12)
    assert isinstance(response, FetchResponse)
    assert response.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_unknown_special_timestamp_gets_an_error(connection: RawConnection, topic: str) -> None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-99)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    response = connection.ask(request, 7)
    assert isinstance(response, ListOffsetsResponse)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def with_length(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


TAGS = unsigned_varint(MAX_TAGGED_FIELDS + 1) + b"\x07\0" * (MAX_TAGGED_FIELDS + 1)

CLOSING: dict[str, bytes] = {
    "a negative length": struct.pack(">i", -5),
    "a length beyond the limit": struct.pack(">i", 2**31 - 1),
    "an unknown API": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "an unknown version": struct.pack(">ihhih", 10, 3, 99, 1, -1),
    "Produce version 2": struct.pack(">ihhih", 10, 0, 2, 1, -1),
    "a body that is cut": frame_of(MetadataRequest(topics=None), 9)[:-2].replace(b"\0\0\0", b"\0\0\0", 1),
    "an array beyond the frame": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    "a string beyond the frame": struct.pack(">ihhihih", 16, 3, 1, 1, -1, 1, 32767),
    "a client id beyond the frame": struct.pack(">ihhih", 10, 18, 0, 1, 32767),
    "an array of more than a million": with_length(
        struct.pack(">hhihi", 3, 1, 1, -1, MAX_ARRAY_ELEMENTS + 1) + bytes(2 * (MAX_ARRAY_ELEMENTS + 1))
    ),
    "a compact array of more than a million": with_length(
        struct.pack(">hhih", 3, 9, 1, -1)
        + b"\0"
        + unsigned_varint(MAX_ARRAY_ELEMENTS + 2)
        + b"\1\0" * (MAX_ARRAY_ELEMENTS + 1)
    ),
    "ten thousand and one tagged fields in a header": with_length(struct.pack(">hhih", 18, 3, 1, -1) + TAGS),
    "ten thousand and one tagged fields in a body": with_length(
        struct.pack(">hhih", 18, 3, 1, -1) + b"\0\2a\2b" + TAGS
    ),
}


@pytest.mark.parametrize("case", [name for name in CLOSING if name != "a body that is cut"])
def test_connection_is_closed_for_the_same_input_as_in_kafka(
    broker: EmbeddedBroker, connection: RawConnection, case: str
) -> None:
    with RawConnection(broker.port) as hostile:
        hostile.send(CLOSING[case])
        assert hostile.receive() is None
    assert connection.is_served()


class TestMutations:
    """Thousands of damaged frames of every API: typed errors or a closed connection, nothing else."""

    def frames(self, topic: str) -> list[bytes]:
        source = random.Random(3)
        frames = []
        for handler in HANDLERS:
            for version in range(handler.min_version, handler.max_version + 1):
                for _ in range(FRAMES_PER_VERSION):
                    message = sample(handler.request_class, version, source)
                    _make_it_hurt_less(message, topic)
                    frames.append(frame_of(message, version))
        return frames

    def test_nothing_but_typed_errors_comes_of_them(
        self, broker: EmbeddedBroker, bootstrap: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        topic = broker.create_topic()
        produce(bootstrap, topic, [b"before"])
        source = random.Random(4)
        frames = self.frames(topic)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with caplog.at_level(logging.ERROR, "barnabas"):
            for number in range(MUTATIONS):
                _try(broker.port, _mutated(frames[number % len(frames)], source))
        assert [record.getMessage() for record in caplog.records] == []
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 200 * 1024, f"{grown} KiB"
        assert [message.value() for message in consume(bootstrap, topic, 1)] == [b"before"]


def _make_it_hurt_less(message: object, topic: str) -> None:
    """Samples are random, waiting times too: a test cannot wait for them."""
    for name in ("max_wait_ms", "timeout_ms"):
        if hasattr(message, name):
            setattr(message, name, 1)


def _mutated(frame: bytes, source: random.Random) -> bytes:
    """Some bytes changed, removed or added after the header; the length is mostly correct."""
    body = bytearray(frame[4:])
    for _ in range(source.randint(0, 3)):
        place = source.randrange(8, len(body) + 1)
        kind = source.random()
        if kind < 0.6 and place < len(body):
            body[place] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
        elif kind < 0.8:
            del body[place : place + source.randint(1, 8)]
        else:
            body[place:place] = source.randbytes(source.randint(1, 8))
    return struct.pack(">i", len(body)) + body


def _try(port: int, frame: bytes) -> None:
    with RawConnection(port, timeout=0.05) as hostile:
        try:
            hostile.send(frame)
            hostile.receive()
        except (TimeoutError, ConnectionError):
            pass  # it waits for something, or was closed while it was sent
