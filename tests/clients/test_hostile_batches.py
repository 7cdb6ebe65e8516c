"""Well-formed hostile batches are rejected or served without blocking others or exhausting memory."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from barnabas.common.errors import ErrorCode
from barnabas.protocol import decode_response
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
from barnabas.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.records.builder import build_batch, encode_record
from barnabas.records.compression import Codec, compress
from barnabas.records.record import Record
from barnabas.records.varints import varint
from tests.clients.conftest import consume
from tests.support.brokers import BrokerProcess
from tests.support.builders.records import batch_of, with_header
from tests.support.clients import RawConnection, frame_of
from tests.support.clocks import Pings
from tests.support.programs import free_port

MAX_PING = 0.2  # the target is 0.1
MEMORY = 64 << 20
MEGABYTE = 1 << 20
PRODUCE_VERSION = 11
FAR_AHEAD = 4_000_000_000_000

_numbers = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With default settings in a separate process, so that only the broker's work is measured."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[RawConnection]:
    with RawConnection(broker.port, timeout=60) as opened:
        yield opened


def new_topic(connection: RawConnection, **configs: str) -> str:
    name = f"topic-{next(_numbers)}"
    chosen = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=chosen)
    answer = connection.ask(CreateTopicsRequest(topics=[topic]), 5)
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.topics[0].error_code == 0
    return name


def request_of(topic: str, *batches: bytes | bytearray) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=batch) for batch in batches]
    return ProduceRequest(
        acks=1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def send(connection: RawConnection, topic: str, batch: bytes | bytearray) -> PartitionProduceResponse:
    response = connection.ask(request_of(topic, batch), PRODUCE_VERSION)
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]


def received(connection: RawConnection) -> list[PartitionProduceResponse]:
    body = connection.receive()
    assert body is not None
    response: ProduceResponse = decode_response(0, PRODUCE_VERSION, ProduceResponse, memoryview(body))[1]
    return response.responses[0].partition_responses


def now() -> int:
    return int(time.time() * 1000)


def signed(batch: bytearray) -> bytearray:
    return with_header(batch, base_timestamp=now(), max_timestamp=now())


def many_headers(headers: int) -> bytearray:
    body = b"\x00\x00\x00\x02k\x02v" + varint(headers) + bytes(2 * headers)
    packed = compress(Codec.ZSTD, varint(len(body)) + body)
    return signed(batch_of(packed, 1, Codec.ZSTD))


def smallest_records(number: int) -> bytearray:
    """Records of which a million take less than a megabyte."""
    record = Record(0, 0, b"", None)
    data = b"".join(encode_record(delta, 0, record) for delta in range(number))
    return signed(batch_of(compress(Codec.ZSTD, data), number, Codec.ZSTD))


# ---- row 1: what must be looked at -----------------------------------------------------------------

LOOKED_AT = {
    "a timestamp far ahead": {},
    "a compacted topic": {"cleanup_policy": "compact"},
    "another codec": {"compression_type": "gzip"},
    "delays": {"barnabas_delay_enable": "true"},
    "a bound on old timestamps": {"message_timestamp_before_max_ms": "1000000000"},
}


@pytest.mark.parametrize("case", LOOKED_AT)
def test_a_record_of_five_million_headers_is_refused_while_others_are_served(
    broker: BrokerProcess, connection: RawConnection, case: str
) -> None:
    topic = new_topic(connection, **LOOKED_AT[case])
    batch = many_headers(5_000_000)
    if not LOOKED_AT[case]:
        batch = with_header(batch, max_timestamp=FAR_AHEAD)
    assert len(batch) < 2000
    before = broker.memory_peak
    with Pings(broker) as pings:
        answer = send(connection, topic, batch)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "5000000 headers; at most 10000 are allowed" in (answer.error_message or "")
    assert pings.longest < MAX_PING
    assert broker.memory_peak - before < len(batch) + MEMORY


def test_a_bomb_beyond_the_bound_is_refused(broker: BrokerProcess, connection: RawConnection) -> None:
    topic = new_topic(connection, cleanup_policy="compact")
    before = broker.memory_peak
    with Pings(broker) as pings:
        answer = send(connection, topic, many_headers(40_000_000))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "barnabas.validate.max.bytes" in (answer.error_message or "")
    assert pings.longest < MAX_PING
    assert broker.memory_peak - before < MEMORY


def test_millions_of_records_are_walked_through_while_others_are_served(
    broker: BrokerProcess, connection: RawConnection
) -> None:
    topic = new_topic(connection, cleanup_policy="compact")
    batch = smallest_records(1_000_000)
    before = broker.memory_peak
    with Pings(broker) as pings:
        answer = send(connection, topic, batch)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert pings.count > 10
    assert pings.longest < MAX_PING
    assert broker.memory_peak - before < MEMORY
    assert send(connection, topic, smallest_records(1)).base_offset == 1_000_000


def test_looking_up_a_time_does_not_walk_through_a_repeated_record(
    broker: BrokerProcess, connection: RawConnection
) -> None:
    topic, number = new_topic(connection), 4_000_000
    data = encode_record(0, 0, Record(0, 0, None, None)) * number
    batch = signed(batch_of(compress(Codec.ZSTD, data), number, Codec.ZSTD))
    later = now() + 1000
    assert send(connection, topic, with_header(batch, max_timestamp=later)).error_code == 0
    wanted = ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=later)]
    )
    with Pings(broker) as pings:
        answer = connection.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7)
    assert isinstance(answer, ListOffsetsResponse)
    found = answer.topics[0].partitions[0]
    assert (found.error_code, found.offset, found.timestamp) == (0, 0, later)
    assert pings.longest < MAX_PING


def test_batch_under_inspection_is_not_overtaken(broker: BrokerProcess, connection: RawConnection) -> None:
    """Sequences prove the order: a producer's second batch must not precede the first."""
    topic = new_topic(connection, cleanup_policy="compact")
    long = with_header(smallest_records(100_000), producer_id=7, producer_epoch=0, base_sequence=0)
    short = with_header(smallest_records(1), producer_id=7, producer_epoch=0, base_sequence=100_000)
    last = with_header(smallest_records(1), producer_id=7, producer_epoch=0, base_sequence=100_001)
    frames = [request_of(topic, long, short), request_of(topic, last)]
    connection.send(b"".join(frame_of(request, PRODUCE_VERSION) for request in frames))
    answers = [each for _ in frames for each in received(connection)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (0, 0),
        (0, 100_000),
        (0, 100_001),
    ]


def test_recompressed_batch_may_not_exceed_the_maximum_size(
    connection: RawConnection,
) -> None:
    topic = new_topic(connection, compression_type="uncompressed")
    batch = build_batch([Record(0, now(), b"k", bytes(5 * MEGABYTE))], compression=Codec.ZSTD)
    assert send(connection, topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE


# ---- row 6: what no batch can be -------------------------------------------------------------------


def plain() -> bytearray:
    return build_batch([Record(0, now(), b"key", b"value")])


def garbage(codec: Codec) -> bytearray:
    return signed(batch_of(b"\x01garbage that nobody has compressed", 1, codec))


IMPOSSIBLE: dict[str, tuple[Callable[[], bytearray], ErrorCode]] = {
    "two billion records in 81 bytes": (
        lambda: with_header(plain(), record_count=2_000_000_000, last_offset_delta=1_999_999_999),
        ErrorCode.INVALID_RECORD,
    ),
    "one record more than the bytes can hold": (
        lambda: with_header(plain(), record_count=3, last_offset_delta=2),
        ErrorCode.INVALID_RECORD,
    ),
    "two billion compressed records": (
        lambda: signed(batch_of(compress(Codec.ZSTD, bytes(9000)), 2_000_000_000, Codec.ZSTD)),
        ErrorCode.INVALID_RECORD,
    ),
    "more records than lz4 can pack": (
        lambda: signed(batch_of(compress(Codec.LZ4, bytes(9)), 5000, Codec.LZ4)),
        ErrorCode.INVALID_RECORD,
    ),
    "nothing behind the header": (lambda: signed(batch_of(b"", 1)), ErrorCode.INVALID_RECORD),
    "codec 5": (lambda: signed(batch_of(bytes(50), 1, 5)), ErrorCode.INVALID_RECORD),
    "garbage marked gzip": (lambda: garbage(Codec.GZIP), ErrorCode.INVALID_RECORD),
    "garbage marked lz4": (lambda: garbage(Codec.LZ4), ErrorCode.INVALID_RECORD),
    "garbage marked zstd": (lambda: garbage(Codec.ZSTD), ErrorCode.INVALID_RECORD),
    "zeros marked snappy": (
        lambda: signed(batch_of(bytes(50), 1, Codec.SNAPPY)),
        ErrorCode.INVALID_RECORD,
    ),
    "a base timestamp far ahead": (
        lambda: with_header(plain(), base_timestamp=FAR_AHEAD),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "the last timestamp there is": (
        lambda: with_header(plain(), max_timestamp=(1 << 63) - 1),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "a timestamp before 1970": (lambda: with_header(plain(), max_timestamp=-2), ErrorCode.INVALID_TIMESTAMP),
    "the first timestamp there is": (
        lambda: with_header(plain(), base_timestamp=-(1 << 63)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_batch_that_cannot_be_is_refused_by_its_header(connection: RawConnection, case: str) -> None:
    topic = new_topic(connection)
    make, error = IMPOSSIBLE[case]
    answer = send(connection, topic, make())
    assert ErrorCode(answer.error_code) == error
    assert answer.error_message
    assert send(connection, topic, plain()).base_offset == 0


def test_a_liar_makes_no_files(broker: BrokerProcess, connection: RawConnection) -> None:
    topic = new_topic(connection)
    files = len(list((broker.data / f"{topic}-0").iterdir()))
    claims = (2_000_000_000, 5_000_000, 4_000_000)
    for claim in (claims * 70)[:200]:
        packed = signed(batch_of(compress(Codec.ZSTD, bytes(40)), claim, Codec.ZSTD))
        assert send(connection, topic, packed).error_code == ErrorCode.INVALID_RECORD
    assert len(list((broker.data / f"{topic}-0").iterdir())) == files


@pytest.mark.parametrize("codec", list(Codec))
def test_honest_batches_of_every_codec_are_taken(connection: RawConnection, codec: Codec) -> None:
    """Also those that compress well, and records without a timestamp."""
    topic = new_topic(connection)
    good = [
        build_batch([Record(0, now(), None, None)], compression=codec),
        build_batch([Record(0, now(), b"same", b"same")] * 20_000, compression=codec),
        build_batch([Record(0, -1, b"k", b"v")], compression=codec),
        build_batch([Record(0, 0, b"k", b"v"), Record(1, now(), b"k", b"v")], compression=codec),
    ]
    assert [send(connection, topic, batch).error_code for batch in good] == [0, 0, 0, 0]


def test_a_client_that_does_not_know_the_largest_timestamp_may_write(connection: RawConnection) -> None:
    """Old clients of Sarama's leave it at -1, and Kafka takes that."""
    topic = new_topic(connection)
    assert send(connection, topic, with_header(plain(), max_timestamp=-1)).error_code == 0


# ---- row 10: parts without contents ----------------------------------------------------------------

NOTHINGS = {
    "gzip": (Codec.GZIP, zlib.compress(b"", 9, 31) * 50_000),
    "snappy": (Codec.SNAPPY, b"\x82SNAPPY\x00" + bytes(7) + b"\x01" + (b"\0\0\0\x01\0") * 200_000),
    "lz4": (Codec.LZ4, compress(Codec.LZ4, b"x")[:7] + b"\0\0\0\x80" * 250_000 + bytes(4)),
    "zstd": (Codec.ZSTD, b"\x28\xb5\x2f\xfd\x00\x50" + bytes(3) * 340_000 + b"\x01\0\0"),
}


@pytest.mark.parametrize("case", NOTHINGS)
def test_a_megabyte_of_empty_parts_is_refused_while_others_are_served(
    broker: BrokerProcess, connection: RawConnection, case: str
) -> None:
    topic = new_topic(connection, cleanup_policy="compact")
    codec, data = NOTHINGS[case]
    batch = signed(batch_of(data, 1, codec))
    before = broker.memory_peak
    with Pings(broker) as pings:
        answer = send(connection, topic, batch)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert pings.longest < MAX_PING
    assert broker.memory_peak - before < 3 * len(batch) + MEMORY


def test_rejected_and_inspected_batches_are_counted(tmp_path: Path) -> None:
    port = free_port()
    with (
        BrokerProcess(tmp_path, f"barnabas.metrics.listen=127.0.0.1:{port}") as broker,
        RawConnection(broker.port) as connection,
    ):
        topic = new_topic(connection, barnabas_validate_records="all")
        send(connection, topic, garbage(Codec.LZ4))
        send(connection, topic, many_headers(100_000))
        send(connection, topic, with_header(plain(), max_timestamp=-2))
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
            lines = page.read().decode().splitlines()
    assert 'barnabas_batches_refused_total{error="INVALID_RECORD"} 2' in lines
    assert 'barnabas_batches_refused_total{error="INVALID_TIMESTAMP"} 1' in lines
    assert "barnabas_batches_inspected_total 1" in lines


# ---- honest producers whose batches take long to look into -------------------------------------------


@pytest.mark.parametrize("transactional", [False, True], ids=["idempotent", "in transactions"])
def test_long_batches_of_a_real_producer_arrive_once_and_in_order(
    broker: BrokerProcess, connection: RawConnection, transactional: bool
) -> None:
    """Long ones and short ones by turns, several requests in flight."""
    topic = new_topic(connection, cleanup_policy="compact", max_compaction_lag_ms="9223372036854775807")
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "enable.idempotence": True,
        "linger.ms": 0,
        "batch.num.messages": 1,
        "compression.type": "lz4",
    }
    if transactional:
        settings["transactional.id"] = topic
    producer = Producer(settings)
    expected = [bytes(300_000) if number % 3 == 0 else b"%d" % number for number in range(60)]
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number, value in enumerate(expected):
        producer.produce(topic, value, b"%d" % number, partition=0)
    if transactional:
        producer.commit_transaction(30)
    assert producer.flush(60) == 0
    found = consume(broker.bootstrap_servers, topic, len(expected), isolation_level="read_committed")
    assert [message.value() for message in found] == expected
    assert [message.offset() for message in found] == list(range(60))
