"""The inner loops agree with the general record reader."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log.compaction.keys import (
    BYTES_PER_KEY,
    MAX_OWN_KEY,
    POSITION_BITS,
    POSITION_MASK,
    KeyMap,
    note_keys,
    note_keys_with_gaps,
    stand_in,
)
from barnabas.log.compaction.retained_records import RetentionCriteria, keep_at, keep_by_key
from barnabas.records.batch import read_header
from barnabas.records.builder import build_batch, encode_record
from barnabas.records.record import Record, record_data

LENGTHS = st.sampled_from([0, 1, 31, 32, 33, 63, 64, 200, 9000])
BLOBS = st.one_of(st.none(), LENGTHS.map(lambda length: b"x" * length), st.binary(max_size=3))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=2)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 1 << 41),
        BLOBS,
        BLOBS,
        HEADERS.map(tuple),
    ),
    min_size=1,
    max_size=80,
)


@settings(deadline=None)
@given(RECORDS, st.booleans())
def test_keys_are_noted_with_their_last_places(records: list[Record], as_if_with_gaps: bool) -> None:
    keys = KeyMap(1 << 20, origin=900)
    note = note_keys_with_gaps if as_if_with_gaps else note_keys
    regular = note(data_of(records), len(records), 100 << POSITION_BITS, keys.latest)
    starts = [0, *accumulate(map(len, pieces(records)))]
    expected = {
        stand_in(record.key): (100 + index << POSITION_BITS) + starts[index]
        for index, record in enumerate(records)
        if record.key is not None
    }
    assert keys.latest == expected
    without_tombstones = all(record.value is not None for record in records if record.key is not None)
    assert regular == (without_tombstones and not as_if_with_gaps)
    keys.finish()
    last = sorted(place & POSITION_MASK for place in expected.values())
    assert keys.survivors_in(1000, 1000 + len(records)) == last
    assert not keys.survivors_in(0, 999)


@settings(deadline=None)
@given(RECORDS, st.data())
def test_records_are_kept_by_their_positions(records: list[Record], data: st.DataObject) -> None:
    chosen = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1)))
    starts = [0, *accumulate(map(len, pieces(records)))]
    kept = keep_at(data_of(records), [starts[index] for index in chosen])
    assert b"".join(kept.runs) == b"".join(pieces(records)[index] for index in chosen)
    assert kept.record_count == len(chosen)
    assert kept.largest_timestamp == max(records[index].timestamp for index in chosen) - records[0].timestamp


@settings(deadline=None)
@given(RECORDS, st.dictionaries(st.integers(0, 80), st.integers(0, 80)), st.integers(0, 80), st.booleans())
def test_records_are_kept_by_key(
    records: list[Record], newer: dict[int, int], upto: int, keeps_tombstones: bool
) -> None:
    names = {index: stand_in(record.key) for index, record in enumerate(records) if record.key is not None}
    latest = {names[index]: offset for index, offset in newer.items() if index in names}
    keys = KeyMap(1 << 20)
    keys.latest = {key: (offset << POSITION_BITS) + 7 for key, offset in latest.items()}
    kept = keep_by_key(data_of(records), len(records), 0, RetentionCriteria(keys, upto, keeps_tombstones))

    def stays(index: int, record: Record) -> bool:
        if index >= upto:
            return True
        if record.key is None or (record.value is None and not keeps_tombstones):
            return False
        return latest.get(names[index], 0) <= index

    expected = [index for index, record in enumerate(records) if stays(index, record)]
    assert b"".join(kept.runs) == b"".join(pieces(records)[index] for index in expected)
    assert kept.record_count == len(expected)
    assert kept.has_tombstones == any(records[index].value is None for index in expected)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"a", b"bb", b"\n\x01", None]), st.sampled_from([b"", b"\x01", b"xyz", None])
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.integers(1, 90), min_size=1, max_size=4),
    st.sampled_from([0, 1, 63, 64, 9000]),
)
def test_runs_of_equal_records_are_recorded_like_others(
    kinds: list[tuple[bytes | None, bytes | None]], lengths: list[int], step: int
) -> None:
    """Similar parts of a batch of any length, with anything in between."""
    records = [
        Record(0, step * number, key, value)
        for (key, value), length in zip(kinds * 4, lengths, strict=False)
        for number in range(length)
    ]
    fast: dict[bytes, int] = {}
    slow: dict[bytes, int] = {}
    regular = note_keys(data_of(records), len(records), 5 << POSITION_BITS, fast)
    note_keys_with_gaps(data_of(records), len(records), 5 << POSITION_BITS, slow)
    assert fast == slow
    assert regular == all(record.value is not None for record in records if record.key is not None)


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193])
def test_offset_deltas_of_any_length_are_stepped_over(count: int) -> None:
    records = [Record(0, 0, b"%d" % index, b"") for index in range(count)]
    latest: dict[bytes, int] = {}
    assert note_keys(data_of(records), count, 0, latest)
    assert [place >> POSITION_BITS for place in latest.values()] == list(range(count))
    assert list(latest) == [record.key for record in records]


def data_of(records: list[Record]) -> bytes:
    batch = build_batch(records)
    return record_data(batch, read_header(batch))


def pieces(records: list[Record]) -> list[bytes]:
    """The bytes of each record."""
    base = records[0].timestamp
    return [encode_record(place, record.timestamp - base, record) for place, record in enumerate(records)]


@settings(deadline=None)
@given(RECORDS, st.data())
def test_malformed_records_end_in_one_of_two_errors(records: list[Record], data: st.DataObject) -> None:
    damaged = bytearray(data_of(records))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for read in (
        lambda: note_keys(bytes(damaged), len(records), 0, {}),
        lambda: note_keys_with_gaps(bytes(damaged), len(records), 0, {}),
        lambda: keep_by_key(bytes(damaged), len(records), 0, RetentionCriteria(KeyMap(1), 80, True)),
    ):
        assert_ends_well_or_in(read, IndexError, ValueError)


def assert_ends_well_or_in(read: Callable[[], object], *errors: type[Exception]) -> None:
    """Damage may be undetected here; other errors fail the test."""
    with suppress(*errors):
        read()


def test_long_keys_are_known_by_something_that_no_key_can_be() -> None:
    assert stand_in(b"x" * MAX_OWN_KEY) == b"x" * MAX_OWN_KEY
    assert len(stand_in(b"x" * 33)) == MAX_OWN_KEY + 1
    assert stand_in(stand_in(b"x" * 33)) != stand_in(b"x" * 33)


@pytest.mark.parametrize("length", [4, 33])
def test_a_key_takes_no_more_memory_than_reckoned_with(length: int) -> None:
    for count in (1000, 20_000, 44_000, 100_000):
        tracemalloc.start()
        keys = KeyMap(1 << 30)
        for number in range(count):
            keys.latest[number.to_bytes(length, "big")] = number << POSITION_BITS
        keys.finish()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= BYTES_PER_KEY * count
