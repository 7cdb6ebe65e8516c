"""Lookup of aborted transactions for read_committed readers, without scanning all of them."""

from collections.abc import Iterator
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.log.reader import MAX_LISTED, SHORT_SLICE
from barnabas.log.segments.aborted_index import BLOCK, AbortedIndex, AbortedTransaction, encode_aborted
from barnabas.records.batch import HEADER, iterate_headers
from barnabas.records.control import AbortedTransactions
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import append, batch, content, end_transaction, marker, new_log, produced

LONGS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def histories(draw: st.DrawFn) -> list[AbortedTransaction]:
    """Transactions of some producers, as a log would have written them."""
    opened: dict[int, int] = {}
    entries = []
    for offset, producer in enumerate(draw(st.lists(st.integers(0, 4), max_size=80))):
        if producer not in opened:
            opened[producer] = offset
            continue
        first = opened.pop(producer)
        stable = min(opened.values(), default=offset + 1)
        entries.append(AbortedTransaction(producer, first, offset, stable))
    return entries


def one_by_one(entries: list[AbortedTransaction], start: int, end: int) -> list[tuple[int, int]]:
    return [
        (entry.producer_id, entry.first_offset)
        for entry in entries
        if entry.last_offset >= start and entry.first_offset < end
    ]


@settings(deadline=None)
@given(histories(), st.integers(0, 90), st.integers(0, 90))
def test_search_equals_a_full_scan(entries: list[AbortedTransaction], start: int, end: int) -> None:
    index = AbortedIndex()
    for entry in entries:
        index.append(entry)
    assert list(index) == entries
    assert list(index.between(start, end)) == one_by_one(entries, start, end)
    assert list(index.ended_by(start)) == [entry for entry in entries if entry.last_offset <= start]


@settings(deadline=None)
@given(histories(), st.randoms(), st.integers(0, 90), st.integers(0, 90))
def test_the_order_in_a_file_does_not_matter(
    entries: list[AbortedTransaction], rng: object, start: int, end: int
) -> None:
    rng.shuffle(entries)  # type: ignore[attr-defined]
    index = AbortedIndex.from_bytes(encode_aborted(entries))
    assert set(index.between(start, end)) == set(one_by_one(entries, start, end))


@settings(deadline=None)
@given(st.lists(st.builds(AbortedTransaction, LONGS, LONGS, LONGS, LONGS), max_size=20), LONGS, LONGS)
def test_any_numbers_are_encoded_as_in_kafka_and_only_overlaps_are_found(
    entries: list[AbortedTransaction], start: int, end: int
) -> None:
    entries.sort(key=itemgetter(2))
    index = AbortedIndex(entries)
    if sorted(entry.last_stable_offset for entry in entries) == [
        entry.last_stable_offset for entry in entries
    ]:
        assert index.to_bytes() == encode_aborted(entries)
    else:
        found = set(index.between(start, end))
        assert found <= set(one_by_one(entries, start, end))


class Counting(list):  # type: ignore[type-arg]
    """Counts accesses to its elements."""

    looked_at = 0

    def __getitem__(self, place: int) -> int:  # type: ignore[override]
        self.looked_at += 1
        return int(super().__getitem__(place))


def test_search_does_not_read_every_entry() -> None:
    count = 100 * BLOCK
    short = [AbortedTransaction(number, 2 * number, 2 * number + 1, 0) for number in range(1, count)]
    index = AbortedIndex([*short, AbortedTransaction(0, 0, 2 * count, 2 * count + 1)])
    index.first_offsets = looked = Counting(index.first_offsets)  # type: ignore[assignment]
    assert len(list(index.between(0, 20))) == 10, "the last one was open all the time"
    assert len(list(index.between(2 * count - 4, 2 * count))) == 3
    assert looked.looked_at < 5 * BLOCK


# -- in a log ---------------------------------------------------------------------------------------------


@pytest.fixture
def log() -> Log:
    return new_log("/data/orders-0", LogConfig(segment_bytes=1 << 20), FaultyFileSystem())


def in_transaction(log: Log, producer_id: int, sequence: int, value: bytes = b"x") -> None:
    append(log, produced(producer_id, 0, sequence, value, transactional=True))


def visible(log: Log, size: int = 1 << 20) -> Iterator[bytes]:
    """Values visible to a consumer with the broker's aborted transactions."""
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        data, aborted = log.read_committed(offset, size)
        read, hidden = content(data), AbortedTransactions(tuple(aborted))
        assert read, "there is something to read"
        assert len(aborted) <= max(MAX_LISTED, SHORT_SLICE // HEADER.size)
        for position, header in iterate_headers(read):
            if not hidden.hide(memoryview(read)[position : position + header.size], header):
                yield read[position + header.size - 2 : position + header.size - 1]
            offset = header.next_offset


def test_a_few_aborted_transactions_are_listed_as_they_are(log: Log) -> None:
    for producer in range(3):
        in_transaction(log, producer, 0)
    for producer in range(3):
        end_transaction(log, marker(producer, 0, committed=producer == 1))
    data, aborted = log.read_committed(0, 1 << 20)
    assert aborted == [(0, 0), (2, 2)]
    assert len(content(data)) == log.size_bytes


def test_many_aborted_transactions_shorten_the_slice_and_the_list_is_that_of_its_batches(log: Log) -> None:
    in_transaction(log, 0, 0, b"0")  # open until the very end
    for number in range(1, 2001):
        in_transaction(log, number, 0, b"a")
        append(log, batch(b"v"))
        end_transaction(log, marker(number, 0, committed=number % 4 == 0))
    end_transaction(log, marker(0, 0, committed=False))
    data, aborted = log.read_committed(1, 1 << 20)
    read = content(data)
    assert len(read) <= SHORT_SLICE
    producers = {header.producer_id for _, header in iterate_headers(read)}
    assert {producer for producer, _ in aborted} == {number for number in producers if number % 4} - {-1}
    assert sorted(aborted, key=itemgetter(1)) == aborted
    shown = list(visible(log))
    assert shown.count(b"v") == 2000
    assert shown.count(b"a") == 500
    assert shown.count(b"0") == 0


def test_transactions_that_span_the_slice_without_a_batch_in_it_are_not_listed(log: Log) -> None:
    for number in range(1000):
        in_transaction(log, number, 0)
    middle = log.log_end_offset
    append(log, batch(b"v"))
    for number in range(1000):
        end_transaction(log, marker(number, 0, committed=False))
    assert len(log.aborted_transactions(middle, middle + 1)) == 1000
    data, aborted = log.read_committed(middle, 100)
    assert (len(aborted), len(content(data))) == (0, 100)


def test_a_batch_larger_than_a_short_slice_comes_whole(log: Log) -> None:
    for number in range(MAX_LISTED + 1):
        in_transaction(log, number, 0)
    in_transaction(log, 5, 1, b"y" * (2 * SHORT_SLICE))
    for number in range(MAX_LISTED + 1):
        end_transaction(log, marker(number, 0, committed=False))
    data, aborted = log.read_committed(MAX_LISTED + 1, 1 << 20)
    assert len(content(data)) > 2 * SHORT_SLICE
    assert aborted == [(5, 5)]
