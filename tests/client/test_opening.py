from collections.abc import Sequence

import pytest

from barnabas.client.fetching import FetchedPartition
from barnabas.client.opening import open_batches
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.records.builder import build_batch
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.records.record import Record

NOW = 1_700_000_000_000


def batch(base_offset: int, *values: bytes, producer_id: int = -1, transactional: bool = False) -> bytes:
    records = [Record(0, NOW, None, value) for value in values]
    epoch = 0 if producer_id >= 0 else -1
    return bytes(
        build_batch(
            records,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=epoch,
            transactional=transactional,
        )
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    end = EndTransactionMarker(committed, 0)
    return bytes(end_transaction_marker(producer_id, 0, end, timestamp=NOW, base_offset=offset))


def fetched(data: bytes, fetch_offset: int = 0, aborted: Sequence[tuple[int, int]] = ()) -> FetchedPartition:
    tp = TopicPartition("t", 0)
    return FetchedPartition(tp, fetch_offset, ErrorCode.NONE, memoryview(data), 0, 0, 0, tuple(aborted))


def values_of(answer: FetchedPartition, *, committed_only: bool = False) -> list[bytes | None]:
    return [record.value for record in open_batches(answer, committed_only=committed_only).records]


def test_records_before_the_fetch_offset_are_left_out_of_its_batch() -> None:
    opened = open_batches(fetched(batch(10, b"a", b"b", b"c"), 11), committed_only=False)

    assert [(record.offset, record.value) for record in opened.records] == [(11, b"b"), (12, b"c")]
    assert opened.next_offset == 13


def test_a_batch_that_was_cut_off_at_the_end_is_read_next_time() -> None:
    data = batch(0, b"a") + batch(1, b"b")[:-1]

    assert open_batches(fetched(data), committed_only=False).next_offset == 1


def test_markers_are_skipped_but_move_the_position() -> None:
    data = batch(0, b"a", producer_id=7, transactional=True) + marker(1, 7, committed=True)

    opened = open_batches(fetched(data), committed_only=False)

    assert [record.value for record in opened.records] == [b"a"]
    assert opened.next_offset == 2


def test_aborted_records_are_hidden_from_read_committed_readers() -> None:
    data = (
        batch(0, b"aborted", producer_id=7, transactional=True)
        + batch(1, b"other", producer_id=8, transactional=True)
        + marker(2, 7, committed=False)
        + batch(3, b"later", producer_id=7, transactional=True)
        + marker(4, 7, committed=True)
        + marker(5, 8, committed=True)
    )
    answer = fetched(data, aborted=[(7, 0)])

    assert values_of(answer, committed_only=True) == [b"other", b"later"]
    assert values_of(answer) == [b"aborted", b"other", b"later"]


def test_a_damaged_batch_is_an_error_with_its_place() -> None:
    data = bytearray(batch(5, b"abc"))
    data[-2] ^= 1

    with pytest.raises(KafkaError, match="offset 5 of t-0") as raised:
        open_batches(fetched(bytes(data), 5), committed_only=False)

    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
