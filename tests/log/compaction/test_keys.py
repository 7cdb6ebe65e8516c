"""The inner loops agree with the slow and general reader of records."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log.compaction.choosing import Choice, keep_by_key, keep_by_place
from barnabas.log.compaction.keys import BYTES_PER_KEY, LONGEST_OWN_KEY, KeyMap, note_keys, stand_in
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
@given(RECORDS)
def test_keys_are_noted_with_their_last_offsets(records: list[Record]) -> None:
    latest: dict[bytes, int] = {}
    regular = note_keys(data_of(records), len(records), 1000, latest)
    expected = {stand_in(r.key): 1000 + place for place, r in enumerate(records) if r.key is not None}
    assert latest == expected
    assert regular == all(record.value is not None for record in records if record.key is not None)


@settings(deadline=None)
@given(RECORDS, st.data())
def test_records_are_kept_by_place(records: list[Record], data: st.DataObject) -> None:
    places = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1)))
    kept = keep_by_place(data_of(records), places)
    assert b"".join(kept.runs) == b"".join(pieces(records)[place] for place in places)
    assert kept.record_count == len(places)
    assert kept.largest_timestamp == max(records[place].timestamp for place in places) - records[0].timestamp


@settings(deadline=None)
@given(RECORDS, st.dictionaries(st.integers(0, 80), st.integers(0, 80)), st.integers(0, 80), st.booleans())
def test_records_are_kept_by_key(
    records: list[Record], newer: dict[int, int], upto: int, keeps_tombstones: bool
) -> None:
    keys = {place: stand_in(record.key) for place, record in enumerate(records) if record.key is not None}
    latest = {keys[place]: offset for place, offset in newer.items() if place in keys}
    kept = keep_by_key(data_of(records), len(records), 0, Choice(latest, upto, keeps_tombstones))

    def stays(place: int, record: Record) -> bool:
        if place >= upto:
            return True
        if record.key is None or (record.value is None and not keeps_tombstones):
            return False
        return latest.get(keys[place], 0) <= place

    expected = [place for place, record in enumerate(records) if stays(place, record)]
    assert b"".join(kept.runs) == b"".join(pieces(records)[place] for place in expected)
    assert kept.record_count == len(expected)
    assert kept.has_tombstones == any(records[place].value is None for place in expected)


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
        lambda: keep_by_key(bytes(damaged), len(records), 0, Choice({}, 80, True)),
    ):
        try:
            read()
        except (IndexError, ValueError):
            continue


def test_long_keys_are_known_by_something_that_no_key_can_be() -> None:
    assert stand_in(b"x" * LONGEST_OWN_KEY) == b"x" * LONGEST_OWN_KEY
    assert len(stand_in(b"x" * 33)) == LONGEST_OWN_KEY + 1
    assert stand_in(stand_in(b"x" * 33)) != stand_in(b"x" * 33)


@pytest.mark.parametrize("length", [4, 33])
def test_a_key_takes_no_more_memory_than_reckoned_with(length: int) -> None:
    for count in (1000, 20_000, 44_000, 100_000):
        tracemalloc.start()
        keys = KeyMap(1 << 30)
        for number in range(count):
            keys.latest[number.to_bytes(length, "big")] = number + (1 << 40)
        keys.finish()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= BYTES_PER_KEY * count
