"""The record walkers agree with each other and with reading every record."""

import importlib.util
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.errors import ErrorCode
from barnabas.records import walking
from barnabas.records.batch import BatchHeader, read_header
from barnabas.records.builder import build_batch, encode_record
from barnabas.records.record import InvalidRecords, Record, iterate_records
from barnabas.records.validation import TimestampBounds, validate_data, validate_records
from barnabas.records.varints import varint
from barnabas.records.walking import RecordRules, ScanState, walk_plain
from tests.support.builders.records import CODECS, EXAMPLES, NOW, batch_of, record_lists, with_header

needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is an extra")

BOUNDS = st.none() | st.builds(
    TimestampBounds, st.just(NOW), st.integers(0, 2 * NOW), st.integers(0, 2 * NOW)
)
Outcome = tuple[object, ...]


@pytest.fixture(params=["plain", pytest.param("compiled", marks=needs_numba)])
def each_walk(request: pytest.FixtureRequest) -> Iterator[None]:
    with using(request.param):
        yield


@contextmanager
def using(name: str) -> Iterator[None]:
    try:
        assert name == "plain" or walking.load_compiled()
        yield
    finally:
        walking.set_compiled(None)


def by_objects(
    batch: bytearray, header: BatchHeader, require_keys: bool, bounds: TimestampBounds | None
) -> Outcome:
    """Expected result, computed by reading each record."""
    largest, errors, code = -1, [], ErrorCode.INVALID_RECORD
    try:
        for index, record in enumerate(iterate_records(batch, header)):
            largest = max(largest, record.timestamp)
            if bounds is not None and not bounds.allow(record.timestamp):
                code = ErrorCode.INVALID_TIMESTAMP
                errors.append(index)
            elif record.offset != header.base_offset + index or (require_keys and record.key is None):
                errors.append(index)
    except InvalidRecords as error:
        return "malformed", error.message
    return ("refused", code, errors) if errors else ("good", largest)


def by_walking(
    batch: bytearray, header: BatchHeader, require_keys: bool, bounds: TimestampBounds | None
) -> Outcome:
    try:
        return "good", validate_records(batch, header, require_keys=require_keys, timestamps=bounds)
    except InvalidRecords as error:
        if error.message.startswith("One or more"):
            return "refused", error.code, [index for index, _ in error.record_errors]
        return "malformed", error.message


@given(record_lists(), st.sampled_from(CODECS), st.booleans(), BOUNDS, st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_walks_and_objects_agree_on_random_and_damaged_batches(
    records: list[Record],
    codec: int,
    require_keys: bool,
    bounds: TimestampBounds | None,
    source: random.Random,
) -> None:
    batch = build_batch(records, compression=codec)
    if not codec and source.random() < 0.8:
        for _ in range(source.randint(1, 3)):
            batch[source.randrange(61, len(batch))] = source.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        count = max(len(records) + source.choice((0, 0, 0, 1, -1)), 1)
        batch = with_header(batch, record_count=count, last_offset_delta=count - 1)
    header = read_header(batch)
    expected = by_objects(batch, header, require_keys, bounds)
    with using("plain"):
        assert by_walking(batch, header, require_keys, bounds) == expected
    if importlib.util.find_spec("numba") is not None:
        with using("compiled"):
            assert by_walking(batch, header, require_keys, bounds) == expected


def test_walk_continues_to_the_end_of_valid_records(each_walk: None) -> None:
    batch = build_batch(EXAMPLES)
    data = bytes(batch[61:])
    place = walking.walk(data, ScanState(), len(EXAMPLES), RecordRules(NOW))
    assert place == (len(EXAMPLES), len(data), NOW + 90_000)


def test_a_walk_can_be_taken_in_steps(each_walk: None) -> None:
    batch = build_batch([Record(0, NOW + number, b"k", b"v" * number) for number in range(1700)])
    breaths: list[int] = []
    largest = validate_data(bytes(batch[61:]), read_header(batch), breathe=lambda: breaths.append(1))
    assert (largest, len(breaths)) == (NOW + 1699, 4)


def test_long_ways_to_write_a_number_are_read(each_walk: None) -> None:
    """A writer may pad its numbers: 0x80 0x00 is a zero of two bytes."""
    body = b"\x00" + b"\x80\x00" + b"\x80\x80\x00" + b"\x82\x80\x80\x00k" + b"\x82\x00v" + b"\x80\x00"
    data = varint(len(body)) + body
    assert walking.walk(data, ScanState(), 1, RecordRules(NOW)).number == 1


@pytest.mark.parametrize("data", [bytearray, bytes])
def test_any_buffer_will_do(each_walk: None, data: type[bytes] | type[bytearray]) -> None:
    assert walking.walk(data(build_batch(EXAMPLES)[61:]), ScanState(), 7, RecordRules(NOW)).number == 7


@pytest.mark.parametrize("count", [10_001, 5_000_000])
def test_too_many_headers_are_refused_by_their_number_alone(each_walk: None, count: int) -> None:
    body = b"\x00\x00\x00\x01\x01" + varint(count) + bytes(2 * count)
    batch = batch_of(varint(len(body)) + body, 1)
    with pytest.raises(InvalidRecords, match=f"it has {count} headers; at most 10000 are allowed"):
        validate_records(batch, read_header(batch), max_headers=10_000)


def test_headers_are_allowed_up_to_their_bound(each_walk: None) -> None:
    record = Record(0, NOW, b"k", b"v", tuple((str(number), b"x") for number in range(100)))
    batch = build_batch([record])
    assert validate_records(batch, read_header(batch), max_headers=100) == NOW
    with pytest.raises(InvalidRecords):
        validate_records(batch, read_header(batch), max_headers=99)


def test_the_smallest_record_takes_seven_bytes() -> None:
    data = encode_record(0, 0, Record(0, NOW, None, None))
    assert len(data) == walking.MIN_RECORD
    assert walk_plain(data, ScanState(), 1, RecordRules(NOW)).number == 1
