"""The state machine of a partition, with every response of a source."""

from __future__ import annotations

import pytest

from barnabas.client.mirrors.store import LinkStatus
from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.services.mirror.partition import (
    FetchResult,
    Following,
    Payload,
    SourcePartition,
    TargetPosition,
)

TP = TopicPartition("orders", 0)


def batch(base: int, count: int = 1, epoch: int = 0) -> bytes:
    records = [Record(0, 0, None, b"v") for _ in range(count)]
    return bytes(build_batch(records, base_offset=base, leader_epoch=epoch))


def answer(
    offset: int,
    *batches: bytes,
    error: ErrorCode = ErrorCode.NONE,
    end: int = 100,
    start: int = 0,
    diverging: int = -1,
) -> FetchResult:
    return FetchResult(offset, error, memoryview(b"".join(batches)), end, start, (), diverging)


def partition(at: int = 0, epoch: int = -1, *, compacted: bool = False, **following: bool) -> SourcePartition:
    made = SourcePartition(TP, compacted=compacted, following=Following(**following))
    made.begin(at, epoch, 1.0)
    return made


def taken(made: SourcePartition, fetched: FetchResult) -> Payload:
    payload = made.take(fetched, 2.0)
    assert payload is not None
    return payload


def test_whole_batches_are_taken_and_a_torn_one_is_left() -> None:
    made = partition()
    payload = taken(made, answer(0, batch(0, 3), batch(3, 2, epoch=4), batch(5)[:-1]))
    assert (payload.first, payload.next_offset, payload.last_epoch) == (0, 5, 4)
    assert bytes(payload.records) == batch(0, 3) + batch(3, 2, epoch=4)
    assert (made.position, made.last_epoch, made.log_end, made.lag) == (5, 4, 0, 100)


def test_records_in_the_target_move_the_log_end_and_the_lag() -> None:
    made = partition()
    payload = taken(made, answer(0, batch(0, 3), end=3))
    assert made.lag_ms(5.0) == 4000
    made.settle(payload, TargetPosition(3, 0, False))
    assert (made.lag, made.lag_ms(9.0)) == (0, 0)


def test_an_answer_to_an_older_question_is_passed_over() -> None:
    made = partition(5)
    assert made.take(answer(0, batch(0, 3)), 2.0) is None
    assert made.position == 5


def test_the_first_batch_may_begin_before_the_log_start() -> None:
    made = partition(5)
    assert taken(made, answer(5, batch(0, 10), start=5)).next_offset == 10


def test_a_compacted_topic_has_gaps() -> None:
    made = partition(5, compacted=True)
    assert taken(made, answer(5, batch(9), batch(20))).next_offset == 21


def test_gap_in_a_topic_without_compaction_fails_and_keeps_earlier_records() -> None:
    made = partition(5)
    assert taken(made, answer(5, batch(5, 2), batch(9))).next_offset == 7
    assert made.state is LinkStatus.FAILED
    assert "offsets 7 to 8 are missing" in made.reason


def test_a_source_that_was_cut_fails_the_partition_and_cuts_nothing() -> None:
    made = partition(50, 3)
    assert made.take(answer(50, diverging=40), 2.0) is None
    assert (made.state, made.position) == (LinkStatus.FAILED, 50)
    assert "--on-truncation=follow" in made.reason


def test_a_source_that_ends_before_the_target_fails_it_too() -> None:
    made = partition(50, 3)
    assert made.take(answer(50, error=ErrorCode.OFFSET_OUT_OF_RANGE, end=30), 2.0) is None
    assert made.state is LinkStatus.FAILED
    assert "truncated to offset 30" in made.reason


def test_following_a_truncation_cuts_the_target_only_if_it_ends_where_it_should() -> None:
    made = partition(50, 3, truncation=True)
    payload = taken(made, answer(50, diverging=40)._replace(diverging_epoch=2))
    assert (payload.truncate_to, payload.truncate_epoch, payload.expected_end) == (40, 2, 50)
    assert not made.is_fetching, "before the target has said where it ends, and with which epoch"
    made.settle(payload, TargetPosition(40, 2, False))
    assert (made.log_end, made.position, made.last_epoch, made.state) == (40, 40, 2, LinkStatus.ACTIVE)


def test_a_cut_inside_a_batch_takes_all_of_it() -> None:
    made = partition(50, 3, truncation=True)
    made.settle(taken(made, answer(50, diverging=40)), TargetPosition(35, 2, False))
    assert (made.position, made.last_epoch, made.log_end) == (35, 2, 35)


def test_records_deleted_before_they_were_mirrored_fail_the_partition() -> None:
    made = partition(50, 3)
    assert made.take(answer(50, error=ErrorCode.OFFSET_OUT_OF_RANGE, start=70), 2.0) is None
    assert "deleted offsets 50 to 69" in made.reason


def test_following_a_gap_begins_behind_it() -> None:
    made = partition(50, 3, gaps=True)
    payload = taken(made, answer(50, error=ErrorCode.OFFSET_OUT_OF_RANGE, start=70))
    assert (payload.truncate_to, payload.expected_end) == (70, 50)
    made.settle(payload, TargetPosition(70, -1, True))
    assert (made.position, made.last_epoch) == (70, -1)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 100,
        batch(7)[:16] + b"\x01" + batch(7)[17:],  # magic 1
        batch(0, 2),  # before the position, wholly
        batch(7, epoch=2),  # a decreasing epoch
        batch(7) + batch(7),
    ],
)
def test_a_source_that_answers_garbage_is_given_up_after_three_times(garbage: bytes) -> None:
    made = partition(7, 3)
    for _ in range(3):
        assert made.state is LinkStatus.ACTIVE
        made.take(answer(7, garbage), 2.0)
    assert made.state is LinkStatus.FAILED
    assert made.position == 7
    assert "3 times" in made.reason


def test_batches_that_arrive_damaged_are_fetched_again_and_given_up_after_three_times() -> None:
    made = partition(7, 3)
    for _ in range(3):
        payload = taken(made, answer(7, batch(7, 2, epoch=3)))
        made.settle(payload, TargetPosition(7, 3, False, ErrorCode.CORRUPT_MESSAGE, "CRC"))
        assert made.position == 7
    assert made.state is LinkStatus.FAILED


def test_a_source_that_is_away_comes_back() -> None:
    made = partition(7, 3)
    made.take(answer(7, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), 2.0)
    assert made.state is LinkStatus.SOURCE_UNAVAILABLE
    assert made.is_fetching
    taken(made, answer(7, batch(7, epoch=3)))
    assert made.state is LinkStatus.ACTIVE  # type: ignore[comparison-overlap]


def test_a_source_that_forbids_reading_fails() -> None:
    made = partition(7)
    made.take(answer(7, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), 2.0)
    assert made.state is LinkStatus.FAILED


def test_a_target_that_diverges_fails_the_partition() -> None:
    made = partition(7)
    payload = taken(made, answer(7, batch(7)))
    made.settle(payload, TargetPosition(7, 5, False, ErrorCode.FENCED_STATE_EPOCH, "another log"))
    assert made.state is LinkStatus.FAILED


def test_moved_leader_of_the_target_is_asked_again_for_its_position() -> None:
    made = partition(7)
    payload = taken(made, answer(7, batch(7)))
    made.settle(payload, TargetPosition(-1, -1, False, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert not made.is_fetching
    made.begin(7, -1, 3.0)
    assert made.is_fetching


def test_batches_that_overtook_others_are_fetched_again() -> None:
    made = partition(7)
    payload = taken(made, answer(7, batch(7, 3)))
    made.settle(payload._replace(first=10), TargetPosition(7, 0, False, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert (made.state, made.position) == (LinkStatus.ACTIVE, 7)


def test_orders_pause_resume_and_stop_but_a_pause_does_not_hide_a_failure() -> None:
    made = partition(7)
    made.ordered(LinkStatus.PAUSED)
    while_paused = made.is_fetching
    assert not while_paused
    made.ordered(LinkStatus.ACTIVE)
    assert made.is_fetching
    made.fail("why")
    made.ordered(LinkStatus.PAUSED)
    made.ordered(LinkStatus.ACTIVE)
    states = [made.state]
    made.resume()
    states.append(made.state)
    assert states == [LinkStatus.FAILED, LinkStatus.ACTIVE]
    made.ordered(LinkStatus.PROMOTING)
    made.ordered(LinkStatus.STOPPED)
    assert made.state is LinkStatus.STOPPED
    made.fail("too late")
    assert made.state is LinkStatus.STOPPED


def test_moved_log_start_is_sent_to_the_target() -> None:
    made = partition(7)
    taken(made, answer(7, batch(7), end=8))
    assert made.take(answer(8, end=8), 2.0) is None
    payload = taken(made, answer(8, end=8, start=4))
    assert (payload.log_start, len(payload.records)) == (4, 0)
