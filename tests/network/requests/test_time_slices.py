"""Long-running work in slices."""

from __future__ import annotations

from itertools import pairwise

from barnabas.common.cooperative import PIECE, finish
from barnabas.network.requests.time_slices import freeing
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.clocks import MAX_STEP, longest_step

MANY = 20 * PIECE


def _request() -> OffsetCommitRequest:
    many = [OffsetCommitRequestPartition(each) for each in range(MANY)]
    return OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic(f"topic-{each}") for each in range(MANY)]
        + [OffsetCommitRequestTopic("many", partitions=many)]
    )


def test_a_message_is_freed_a_few_elements_at_a_time() -> None:
    held: list[object] = [_request(), None]
    left = [len(held) for _ in freeing(held)]
    assert left[0] == MANY + 1
    assert all(before - after <= PIECE for before, after in pairwise(left))
    assert len(left) > 2 * MANY / PIECE
    assert not held


def test_nothing_changes_in_a_message_that_is_still_in_use() -> None:
    message = _request()
    finish(freeing([message]))
    assert message == _request()


def test_no_step_is_long() -> None:
    longest, _ = longest_step(freeing([_request()]))
    assert longest <= MAX_STEP
