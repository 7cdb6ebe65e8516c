"""Appended batches are read from the requested offset up to the allowed end."""

from pathlib import Path

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import EMPTY
from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.log.segments.segment_list import KEPT
from tests.support.builders.logs import NOW, append, batch, content, headers, new_log, read_all


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return new_log(tmp_path / "orders-0", LogConfig(segment_bytes=1 << 20))


def fill(log: Log, count: int, records: int = 2) -> None:
    for number in range(count):
        append(log, batch(*(f"{number}-{index}".encode() for index in range(records))))


def test_offsets_are_given_in_order_of_appends(log: Log) -> None:
    assert append(log, batch(b"a", b"b"))[:2] == (0, 1)
    assert append(log, batch(b"c"))[:2] == (2, 2)
    assert log.log_end_offset == 3
    assert read_all(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_the_leader_epoch_and_the_offset_are_stamped_into_the_batch(log: Log) -> None:
    append(log, batch(b"a"))
    append(log, batch(b"b"), epoch=7)
    assert [(header.base_offset, header.leader_epoch) for header in headers(log.read(0, 1000, 2))] == [
        (0, 0),
        (1, 7),
    ]
    assert log.epochs.entries == ((0, 0), (7, 1))


def test_a_read_in_the_middle_of_a_batch_gives_the_whole_batch(log: Log) -> None:
    fill(log, 3, records=10)
    assert [header.base_offset for header in headers(log.read(15, 1 << 20, 30))] == [10, 20]


@pytest.mark.parametrize("recent", [True, False], ids=["at the tail", "by the index"])
def test_every_offset_finds_its_batch(log: Log, recent: bool) -> None:
    fill(log, 40 if recent else 4 * KEPT, records=3)
    for offset in range(log.log_end_offset):
        assert headers(log.read(offset, 1, log.log_end_offset))[0].base_offset == offset // 3 * 3


def test_nothing_at_or_above_the_upper_offset_is_read(log: Log) -> None:
    fill(log, 300)
    for upper in (2, 100, 102, 590, 600):
        assert read_all(log, 0, upper)[-1][0] == upper - 1
    assert log.read(10, 1000, 10) is EMPTY


def test_first_batch_is_complete_even_above_the_maximum(log: Log) -> None:
    append(log, batch(b"x" * 1000))
    append(log, batch(b"y"))
    assert [header.base_offset for header in headers(log.read(0, 10, 2))] == [0]
    assert log.read(0, 10, 2, at_least_one=False) is EMPTY


def test_read_is_no_longer_than_requested(log: Log) -> None:
    fill(log, 100)
    size = len(content(log.read(0, 1, 200)))
    assert len(log.read(0, 3 * size + 5, 200)) == 3 * size + 5


def test_a_read_at_the_log_end_is_empty(log: Log) -> None:
    assert log.read(0, 1000, 0) is EMPTY
    fill(log, 1)
    assert log.read(2, 1000, 2) is EMPTY


@pytest.mark.parametrize("offset", [-1, 3])
def test_a_read_outside_of_the_log_is_out_of_range(log: Log, offset: int) -> None:
    fill(log, 1)
    with pytest.raises(KafkaError) as refusal:
        log.read(offset, 1000, 2)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_reads_go_on_across_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0", LogConfig(segment_bytes=1000))
    for number in range(100):
        append(log, batch(str(number).encode(), timestamp=NOW))
    assert len(log.segments) > 5
    assert read_all(log) == [(number, str(number).encode()) for number in range(100)]
    assert [offset for offset, _ in read_all(log, 50, 70)] == list(range(50, 70))
