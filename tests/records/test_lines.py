"""Batches of lines are valid for all readers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.types import TopicPartition
from barnabas.records.batch import crc_is_right, iterate_headers
from barnabas.records.blocks import MAX_RECORDS, LineEncoder
from barnabas.records.record import iterate_records

TP = TopicPartition("logs", 3)


def read_back(lines: list[bytes], places: list[int], max_bytes: int) -> list[tuple[object, ...]]:
    encoder = LineEncoder(b"host:/a", (("host", b"h"), ("path", None)), "offset")
    found: list[tuple[object, ...]] = []
    for batch in encoder.batches(TP, lines, places, 1_700_000_000_000, max_bytes):
        sealed = memoryview(batch.seal(7, 1, len(found), transactional=True))
        ((start, header),) = iterate_headers(sealed)
        assert (start, header.size, header.record_count) == (0, len(sealed), batch.count)
        assert crc_is_right(sealed, 0, header.size)
        assert header.is_transactional
        assert header.producer_id == 7
        for record in iterate_records(sealed, header):
            assert (record.key, record.timestamp) == (b"host:/a", 1_700_000_000_000)
            found.append((record.value, record.headers))
    return found


@settings(max_examples=50)
@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=60),
    st.integers(0, 2**50),
    st.integers(1, 5000),
)
def test_every_line_comes_back_with_its_place(lines: list[bytes], first: int, max_bytes: int) -> None:
    places = [first + index * 301 for index in range(len(lines))]
    assert read_back(lines, places, max_bytes) == [
        (line, (("host", b"h"), ("path", None), ("offset", b"%d" % place)))
        for line, place in zip(lines, places, strict=True)
    ]


def test_long_lines_and_many_lines_fill_several_batches() -> None:
    lines = [b"x" * 40_000, *(b"%d" % number for number in range(MAX_RECORDS + 5))]
    encoder = LineEncoder(b"k", (), "offset")
    batches = list(encoder.batches(TP, lines, list(range(len(lines))), 0, 10_000_000))
    assert [batch.count for batch in batches] == [MAX_RECORDS, 6]
