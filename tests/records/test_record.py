"""Reading and building batches, against the readers and builders of kafka-python and aiokafka."""

import random
from contextlib import suppress
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.errors import ErrorCode
from barnabas.records.batch import HEADER_SIZE, TimestampType, crc_is_right, read_header
from barnabas.records.builder import build_batch, encode_record, encode_records, largest_encoded_size
from barnabas.records.record import InvalidRecords, Record, iterate_records
from barnabas.records.varints import varint
from tests.support.builders.records import CODECS, EXAMPLES, NOW, batch_of, record_lists, with_header

CLIENTS = [kafka_python_records, aiokafka_records]


def read(batch: bytes | bytearray, limit: int = 10_000_000) -> list[Record]:
    return list(iterate_records(batch, read_header(batch), limit))


def read_by(client: Any, batch: bytearray) -> list[Record]:
    reader = client.DefaultRecordBatch(bytes(batch))
    assert reader.validate_crc()
    return [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in reader
    ]


def build_by(client: Any, records: list[Record], codec: int) -> bytes:
    builder = client.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=1,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        batch_size=1 << 24,
    )
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    return bytes(builder.build())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", CLIENTS)
def test_other_clients_read_our_batches_and_find_every_field(client: Any, codec: int) -> None:
    batch = build_batch(EXAMPLES, compression=codec)
    assert read_by(client, batch) == EXAMPLES


@given(record_lists(), st.integers(-5, 10_000))
def test_records_are_encoded_together_as_one_by_one(records: list[Record], passed: int) -> None:
    plain = [
        Record(0, NOW + passed, None if index % 3 else b"k" * index, b"v" * index) for index in range(200)
    ]
    long = [Record(0, NOW, None, b"v" * length) for length in (8100, 8200, 20_000)]
    for some in (records, plain * 50, long, [Record(0, NOW, b"k", None)]):
        one_by_one = [
            encode_record(delta, record.timestamp - NOW, record) for delta, record in enumerate(some)
        ]
        assert encode_records(some, NOW) == b"".join(one_by_one)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", CLIENTS)
def test_we_read_the_batches_of_other_clients(client: Any, codec: int) -> None:
    batch = build_by(client, EXAMPLES, codec)
    header = read_header(batch)
    assert read(batch) == EXAMPLES
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.is_transactional
    assert not header.is_control
    assert header.max_timestamp == max(record.timestamp for record in EXAMPLES)


@given(records=record_lists())
@settings(max_examples=50)
def test_an_uncompressed_batch_is_byte_for_byte_that_of_kafka_python(records: list[Record]) -> None:
    # kafka-python replaces a timestamp of -1 by the current time; ours is kept.
    records = [record._replace(timestamp=max(record.timestamp, 0)) for record in records]
    ours = build_batch(records, producer_id=7, producer_epoch=3, base_sequence=11, transactional=True)
    expected = bytearray(build_by(kafka_python_records, records, 0))
    expected[12:16] = ours[12:16]  # clients differ in the value of "no leader epoch"
    assert ours == expected


@given(records=record_lists(), codec=st.sampled_from(CODECS), base=st.integers(0, 1 << 60))
@settings(max_examples=100)
def test_built_batches_are_parsed_back(records: list[Record], codec: int, base: int) -> None:
    batch = build_batch(records, compression=codec, base_offset=base, leader_epoch=5)
    header = read_header(batch)
    assert read(batch) == [record._replace(offset=base + record.offset) for record in records]
    assert header.size == len(batch)
    assert header.next_offset == base + len(records)
    assert crc_is_right(memoryview(batch), 0, len(batch))


@given(records=record_lists(max_size=1))
def test_a_record_never_takes_more_than_its_largest_size(records: list[Record]) -> None:
    assert len(encode_record(0x7FFFFFFF, 1 << 62, records[0])) <= largest_encoded_size(records[0])


def test_header_keys_that_are_no_text_survive() -> None:
    raw = Record(0, NOW, None, None, (("\udcff\udcfe", b"x"),))
    batch = build_batch([raw])
    assert b"\xff\xfe" in batch
    assert read(batch) == [raw]


def test_with_log_append_time_every_record_has_the_batches_largest_timestamp() -> None:
    batch = build_batch(EXAMPLES, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert {record.timestamp for record in read(batch)} == {NOW + 90_000}
    assert {record.timestamp for record in read_by(kafka_python_records, batch)} == {NOW + 90_000}


def test_an_empty_batch_of_new_records_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        build_batch([])


GOOD = encode_record(0, 0, Record(0, 0, b"k", b"v", (("h", b"x"),)))


@pytest.mark.parametrize(
    ("data", "count", "text"),
    [
        (GOOD, 2, "record 1 of 2: truncated"),
        (GOOD, 0, "bytes follow"),
        (GOOD + b"\x00", 1, "1 bytes follow"),
        (GOOD[:-1], 1, "does not fit into the batch"),
        (b"", 1, "record 0 of 1: truncated"),
        (varint(-1) + GOOD, 1, "length of -1"),
        (varint(1 << 40) + GOOD, 1, "does not fit into the batch"),
        (b"\xff" * 20, 1, "longer than 10 bytes"),
        (varint(len(GOOD)) + GOOD[1:] + b"\x00", 1, "its fields take"),
        (varint(7) + b"\x00\x00\x00" + varint(50) + b"\x01\x01\x00", 1, "a field of 50 bytes"),
        (varint(7) + b"\x00\x00\x00\x01\x01" + varint(63) + b"\x00", 1, "63 headers"),
        (varint(6) + b"\x00\x00\x00\x01\x01" + varint(-1), 1, "-1 headers"),
        (varint(8) + b"\x00\x00\x00\x01\x01" + varint(1) + b"\x01\x01", 1, "a header has no key"),
        (varint(15) + b"\x00" + varint((1 << 63) - 1) + b"\x00\x01\x01\x00", 1, "64 bits"),
    ],
)
def test_records_that_lie_about_themselves_are_refused(data: bytes, count: int, text: str) -> None:
    with pytest.raises(InvalidRecords, match=text) as caught:
        read(batch_of(data, count))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_the_error_names_the_record() -> None:
    with pytest.raises(InvalidRecords) as caught:
        read(batch_of(GOOD + GOOD + b"\x0c\x00", 3))
    assert [index for index, _ in caught.value.record_errors] == [2]


@pytest.mark.parametrize(
    "changes", [{"record_count": -1}, {"length": 10}, {"length": -5}, {"length": 1 << 30}, {"attributes": 7}]
)
def test_headers_that_lie_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(InvalidRecords):
        read(with_header(build_batch(EXAMPLES), **changes))


def test_a_record_count_in_the_billions_costs_nothing() -> None:
    with pytest.raises(InvalidRecords, match="record 7 of 2147483647: truncated"):
        read(with_header(build_batch(EXAMPLES), record_count=0x7FFFFFFF))


def test_records_that_grow_beyond_the_limit_are_refused() -> None:
    for codec in CODECS:
        batch = build_batch(EXAMPLES, compression=codec)
        with pytest.raises(InvalidRecords, match="limit"):
            read(batch, limit=1000)


@pytest.mark.parametrize("codec", CODECS)
def test_random_damage_ends_in_a_typed_error_or_in_records(codec: int) -> None:
    seeded = random.Random(codec)
    records = [record for record in EXAMPLES if record.key != b"large"]
    original = build_batch(records * 5, compression=codec)
    for _ in range(1500):
        damaged = bytearray(original)
        for _ in range(seeded.randint(1, 4)):
            damaged[seeded.randrange(len(damaged))] = seeded.randrange(256)
        del damaged[seeded.randint(HEADER_SIZE, len(damaged) * 3) :]
        with suppress(InvalidRecords):
            assert all(isinstance(record, Record) for record in read(damaged, limit=1_000_000))
