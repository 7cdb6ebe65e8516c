import struct

import kafka.record.default_records as kafka_python_records
import pytest

from barnabas.records.batch import (
    HEADER_SIZE,
    add_to_sequence,
    crc_is_right,
    iterate_headers,
    read_header,
    stamp,
    stamp_log_append_time,
)
from barnabas.records.builder import build_batch, build_batch_at
from barnabas.records.record import iterate_records
from tests.support.builders.records import CODECS, EXAMPLES, NOW, with_header


def test_header_has_the_values_the_batch_was_built_with() -> None:
    header = read_header(
        build_batch(EXAMPLES, base_offset=40, producer_id=8, producer_epoch=2, base_sequence=100)
    )
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 46, 47)
    assert (header.producer_id, header.producer_epoch) == (8, 2)
    assert (header.base_sequence, header.last_sequence) == (100, 106)
    assert header.has_producer
    assert not read_header(build_batch(EXAMPLES)).has_producer


@pytest.mark.parametrize("producer", [(), (8, 2)])
def test_a_batch_of_one_moment_is_the_one_that_the_general_way_builds(producer: tuple[int, ...]) -> None:
    of_one_moment = [record._replace(timestamp=NOW) for record in EXAMPLES]
    options = {"producer_id": 8, "producer_epoch": 2, "transactional": True} if producer else {}
    assert build_batch_at(NOW, EXAMPLES, *producer) == build_batch(of_one_moment, **options)  # type: ignore[arg-type]


def test_stamping_changes_no_bytes_below_the_crc() -> None:
    batch = build_batch(EXAMPLES)
    padded = bytearray(b"before") + batch
    stamp(padded, 6, 1234, len(batch) - 12, 7)
    header = read_header(padded, 6)
    assert (header.base_offset, header.leader_epoch, header.size) == (1234, 7, len(batch))
    assert crc_is_right(memoryview(padded), 6, len(batch))


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_is_returned_to_readers(codec: int) -> None:
    batch = build_batch(EXAMPLES, compression=codec)
    stamp_log_append_time(memoryview(batch), 0, len(batch), NOW + 1_000_000)
    header = read_header(batch)
    assert header.is_log_append_time
    assert {record.timestamp for record in iterate_records(batch, header)} == {NOW + 1_000_000}
    by_kafka_python = kafka_python_records.DefaultRecordBatch(bytes(batch))
    assert by_kafka_python.validate_crc()
    assert {record.timestamp for record in by_kafka_python} == {NOW + 1_000_000}


def test_any_changed_byte_after_the_crc_is_noticed() -> None:
    batch = build_batch(EXAMPLES[:3])
    for position in range(17, len(batch)):
        batch[position] ^= 1
        assert not crc_is_right(memoryview(batch), 0, len(batch))
        batch[position] ^= 1


def test_a_torn_batch_at_the_end_is_left_out() -> None:
    first, second = build_batch(EXAMPLES), build_batch(EXAMPLES, base_offset=7)
    both = first + second
    assert [position for position, _ in iterate_headers(both)] == [0, len(first)]
    for cut in (1, len(second) // 2, len(second) - HEADER_SIZE, len(second) - 1):
        assert [position for position, _ in iterate_headers(both[:-cut])] == [0]


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_a_length_that_cannot_be_ends_the_walk(length: int) -> None:
    assert list(iterate_headers(with_header(build_batch(EXAMPLES), length=length))) == []


def test_fewer_bytes_than_a_header_are_an_error() -> None:
    with pytest.raises(struct.error):
        read_header(bytes(HEADER_SIZE - 1))


def test_sequences_wrap_to_zero() -> None:
    assert add_to_sequence(0x7FFFFFFF, 1) == 0
    assert add_to_sequence(0x7FFFFFFE, 3) == 1
    assert add_to_sequence(5, 10) == 15
