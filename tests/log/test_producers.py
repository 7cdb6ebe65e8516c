"""Idempotence: what a partition answers to batches that come again, too late, too early or from the past."""

from pathlib import Path

import pytest

from barnabas.config.topic import LogConfig
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.log import Log
from barnabas.log.producers import ProducerStates
from barnabas.records.batch import read_header
from tests.log.support import NOW, append, new_log, produced

LARGEST = 0x7FFFFFFF


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return new_log(tmp_path / "orders-0")


def code(log: Log, data: bytearray) -> ErrorCode:
    with pytest.raises(KafkaError) as refusal:
        append(log, data)
    return refusal.value.code


def test_each_of_the_last_five_batches_is_recognised(log: Log) -> None:
    for sequence in range(0, 14, 2):
        append(log, produced(7, 0, sequence, b"a", b"b"))
    for sequence in range(4, 14, 2):
        result = append(log, produced(7, 0, sequence, b"a", b"b"))
        assert result == (sequence, sequence + 1, -1, True)
    assert log.log_end_offset == 14


def test_a_batch_older_than_the_last_five_is_out_of_order(log: Log) -> None:
    for sequence in range(6):
        append(log, produced(7, 0, sequence, b"a"))
    assert code(log, produced(7, 0, 0, b"a")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_out_of_order(log: Log) -> None:
    append(log, produced(7, 0, 0, b"a"))
    assert code(log, produced(7, 0, 2, b"a")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, produced(7, 0, 1, b"a")).first_offset == 1


def test_a_batch_of_the_same_start_and_another_length_is_no_duplicate(log: Log) -> None:
    append(log, produced(7, 0, 0, b"a", b"b"))
    assert code(log, produced(7, 0, 0, b"a")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_start_anywhere(log: Log) -> None:
    assert append(log, produced(7, 3, 1000, b"a")).first_offset == 0
    assert append(log, produced(7, 3, 1001, b"a")).first_offset == 1


def test_an_old_epoch_is_fenced(log: Log) -> None:
    append(log, produced(7, 3, 0, b"a"))
    assert code(log, produced(7, 2, 1, b"a")) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_at_zero(log: Log) -> None:
    append(log, produced(7, 0, 0, b"a"))
    assert code(log, produced(7, 1, 1, b"a")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, produced(7, 1, 0, b"a")).duplicate is False
    assert code(log, produced(7, 0, 1, b"a")) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_around(log: Log) -> None:
    append(log, produced(7, 0, LARGEST - 1, b"a", b"b", b"c"))
    assert append(log, produced(7, 0, 1, b"d")).first_offset == 3
    assert append(log, produced(7, 0, LARGEST - 1, b"a", b"b", b"c")).duplicate


def test_a_refused_batch_leaves_no_trace(log: Log) -> None:
    append(log, produced(7, 0, 0, b"a"))
    log.config = LogConfig()
    too_late = produced(7, 0, 1, b"a", timestamp=NOW + 10**12)
    assert code(log, too_late) is ErrorCode.INVALID_TIMESTAMP
    assert append(log, produced(7, 0, 1, b"a")).first_offset == 1


def test_silent_producers_are_forgotten(log: Log) -> None:
    append(log, produced(1, 0, 0, b"a", timestamp=NOW - 5000))
    append(log, produced(2, 0, 0, b"a", timestamp=NOW - 500))
    append(log, produced(3, 0, 0, b"a", timestamp=NOW - 5000, transactional=True))
    assert log.producers.expire(NOW, 1000) == 1
    assert {producer.producer_id for producer in log.producers} == {2, 3}
    assert append(log, produced(1, 0, 17, b"a")).first_offset == 3


def test_a_flood_of_producer_ids_pushes_out_the_longest_silent() -> None:
    producers = ProducerStates(limit=10)
    for producer_id in range(25):
        data = produced(producer_id, 0, 0, b"a", transactional=producer_id == 0)
        producers.remember(read_header(data), first_offset=producer_id)
    assert len(producers) <= 10
    assert producers.get(0) is not None, "an open transaction is never forgotten"
    assert producers.get(24) is not None
