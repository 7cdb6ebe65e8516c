"""A follower retries soon after early fetches; its backoff applies to unreachable leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from barnabas.cluster.mirrors import MirrorTopic
from barnabas.common.clock import ManualClock, SystemClock, TurnLimit
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import new_uuid
from barnabas.handlers.fetch.divergence import has_all_before
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.protocol.messages.mirror import MirrorState
from barnabas.records.batch import stamp
from barnabas.replication import follower
from barnabas.replication.fetcher import BrokerIdentity, LeaderFetcher, ReplicaFetchSettings
from barnabas.replication.partition import Partition
from barnabas.replication.throttle import FollowerThrottles
from tests.replication.conftest import NOW, state
from tests.support.builders.logs import HeldThread

LEADER = 2
FOR_EVER = 1000.0  # seconds of backoff, which no test waits for
DEADLINE = 60.0


class Leader:
    """Answers fetches on demand; the next one waits until the end of the test."""

    def __init__(self, *answers: Callable[[FetchRequest], FetchResponse]) -> None:
        self._answers = list(answers)
        self.asked: list[FetchRequest] = []
        self.is_through = asyncio.Event()

    async def send(self, broker_id: int, request: Any, version: int | None = None) -> FetchResponse:
        self.asked.append(request)
        if not self._answers:
            self.is_through.set()
            await asyncio.Event().wait()
        return self._answers.pop(0)(request)


def down(request: FetchRequest) -> FetchResponse:
    raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)


def says(error: ErrorCode) -> Callable[[FetchRequest], FetchResponse]:
    def answer(request: FetchRequest) -> FetchResponse:
        topics = [
            FetchableTopicResponse(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=named.partition, error_code=error, records=b"")
                    for named in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return FetchResponse(session_id=1, responses=topics)

    return answer


def sends(records: bytes) -> Callable[[FetchRequest], FetchResponse]:
    def answer(request: FetchRequest) -> FetchResponse:
        response = says(ErrorCode.NONE)(request)
        response.responses[0].partitions[0].records = records
        return response

    return answer


def followed(
    partition: Partition, *answers: Callable[[FetchRequest], FetchResponse], backoff: float = FOR_EVER
) -> list[FetchRequest]:
    """Requests of a follower until all these responses were delivered."""
    partition.apply(state(leader=LEADER, isr=(1, 2)))

    async def follow() -> list[FetchRequest]:
        leader = Leader(*answers)
        settings = ReplicaFetchSettings(500, 1, 1 << 20, 1 << 20, backoff)
        clock = SystemClock()
        throttles = FollowerThrottles(clock.monotonic)
        fetcher = LeaderFetcher(
            LEADER,
            leader,  # type: ignore[arg-type]
            lambda: BrokerIdentity(1, 1),
            lambda: settings,
            clock,
            throttles,
        )
        fetcher.add(partition)
        await asyncio.wait_for(leader.is_through.wait(), DEADLINE)
        fetcher.stop()
        return leader.asked

    return asyncio.run(follow())


def test_new_leader_that_does_not_know_it_yet_is_asked_again_soon(partition: Partition) -> None:
    too_early = says(ErrorCode.UNKNOWN_LEADER_EPOCH)
    requested = followed(partition, too_early, too_early, too_early)
    assert [len(request.topics) for request in requested] == [1] * 4


def starts_at(log_start: int) -> Callable[[FetchRequest], FetchResponse]:
    def answer(request: FetchRequest) -> FetchResponse:
        is_below = request.topics[0].partitions[0].fetch_offset < log_start
        response = says(ErrorCode.OFFSET_OUT_OF_RANGE if is_below else ErrorCode.NONE)(request)
        response.responses[0].partitions[0].log_start_offset = log_start
        return response

    return answer


def positions(requested: list[FetchRequest]) -> list[int]:
    """Fetch offsets of the requests that were answered."""
    return [request.topics[0].partitions[0].fetch_offset for request in requested[:-1]]


MIRROR = MirrorTopic(new_uuid(), "link", "source", "orders", new_uuid())


@pytest.mark.parametrize("log_start", [0, 7, 13, 20])
@pytest.mark.parametrize("mirror_state", [MirrorState.ACTIVE, MirrorState.STOPPED])
def test_an_empty_mirror_has_the_log_start_of_its_leader(
    partition: Partition, log_start: int, mirror_state: MirrorState
) -> None:
    """A former leader may have restarted at the log start of the source before others knew: the leader may have
    written, or after a promotion have acknowledged, records below it."""
    partition.use_mirror(msgspec.structs.replace(MIRROR, state=mirror_state))
    partition.log.truncate_fully_and_start_at(13)
    requested = followed(partition, starts_at(log_start), starts_at(log_start))
    assert positions(requested) == [0, log_start]
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (log_start, log_start)


def test_a_former_mirror_leader_is_not_in_sync_before_it_has_the_log_start(partition: Partition) -> None:
    """It was counted at offset 0, joined the ISR of a promoted topic, and led it with a log that began at 13."""
    partition.use_mirror(msgspec.structs.replace(MIRROR, state=MirrorState.STOPPED))
    partition.log.truncate_fully_and_start_at(13)
    requested = followed(partition, starts_at(0), starts_at(0))
    partition.log.truncate_fully_and_start_at(0)
    partition.apply(state(leader=1, epoch=9, isr=(1,)))
    for request, counts in zip(requested, [False, True], strict=False):
        wanted = request.topics[0].partitions[0]
        wanted.current_leader_epoch = 9
        assert wanted.fetch_offset == 0
        assert has_all_before(partition, LEADER, wanted) is counts


def test_an_empty_log_that_is_no_mirror_keeps_its_start(partition: Partition) -> None:
    partition.log.truncate_fully_and_start_at(13)
    assert positions(followed(partition, starts_at(0))) == [13]


def test_unreachable_leader_is_looked_up_again_soon(partition: Partition) -> None:
    requested = followed(partition, down, down, says(ErrorCode.NONE))
    assert [request.session_id for request in requested] == [0, 0, 0, 1]


def test_a_log_whose_files_are_being_replaced_is_not_fetched(partition: Partition) -> None:
    """The leader would count it as in sync, and a crash bring back the log that it was."""
    thread = HeldThread()
    partition.log.disk.use_thread_when_slow(1, lambda: thread, ManualClock(NOW).monotonic)
    partition.apply(state(leader=LEADER, isr=(1, 2)))

    async def follow() -> list[FetchRequest]:
        leader = Leader()
        settings = ReplicaFetchSettings(500, 1, 1 << 20, 1 << 20, FOR_EVER)
        clock = SystemClock()
        fetcher = LeaderFetcher(
            LEADER,
            leader,  # type: ignore[arg-type]
            lambda: BrokerIdentity(1, 1),
            lambda: settings,
            clock,
            FollowerThrottles(clock.monotonic),
        )
        partition.log.truncate_fully_and_start_at(5, in_background=True)
        fetcher.add(partition)
        for _ in range(50):
            await asyncio.sleep(0)
        assert leader.asked == []
        thread.release()
        await asyncio.wait_for(leader.is_through.wait(), DEADLINE)
        fetcher.stop()
        return leader.asked

    (request,) = asyncio.run(follow())
    assert request.topics[0].partitions[0].fetch_offset == 5


def test_bytes_without_a_complete_batch_are_rejected_and_requested_again_later(
    partition: Partition, batch: Callable[[], memoryview], caplog: pytest.LogCaptureFixture
) -> None:
    complete = bytes(batch())
    followed(partition, sends(complete[:-1]), sends(complete), backoff=0.01)
    assert "no complete batch" in caplog.text
    assert partition.log.log_end_offset > 0


def test_unexpected_error_delays_one_partition_and_the_session_continues(
    partition: Partition, batch: Callable[[], memoryview], monkeypatch: pytest.MonkeyPatch
) -> None:
    take, failures = follower.take, [RuntimeError("nobody foresaw this")]

    def fail_once(*args: Any) -> Iterator[int]:
        if failures:
            raise failures.pop()
        return take(*args)

    monkeypatch.setattr(follower, "take", fail_once)
    requested = followed(partition, sends(bytes(batch())), sends(bytes(batch())), backoff=0.01)
    assert [request.session_id for request in requested] == [0, 1, 1]
    assert partition.log.log_end_offset > 0


# -- many small batches -------------------------------------------------------------------------------------

SMALL = 200


def small_batches(one: memoryview, count: int = SMALL) -> bytes:
    """As a leader has them, one after the other."""
    all_of_them = bytearray()
    for offset in range(count):
        copy = bytearray(one)
        stamp(copy, 0, 2 * offset, len(copy) - 12, 0)  # two records each
        all_of_them += copy
    return bytes(all_of_them)


def takes(partition: Partition, records: bytes, between: Callable[[int], None]) -> LeaderFetcher:
    """Follow until all that was sent is taken over; `between` is called in every turn of the loop, with its number."""
    partition.apply(state(leader=LEADER, isr=(1, 2)))
    limit = TurnLimit(steps=1, piece_bytes=10 * len(records) // SMALL)

    async def follow() -> LeaderFetcher:
        leader = Leader(sends(records))
        settings = ReplicaFetchSettings(500, 1, 1 << 20, 1 << 20, FOR_EVER)
        clock = ManualClock()
        throttles = FollowerThrottles(clock.monotonic)
        fetcher = LeaderFetcher(
            LEADER,
            leader,  # type: ignore[arg-type]
            lambda: BrokerIdentity(1, 1),
            lambda: settings,
            clock,
            throttles,
            limit,
        )
        fetcher.add(partition)
        for iteration in range(1000):
            between(iteration)
            await asyncio.sleep(0)
            if leader.is_through.is_set():
                break
        fetcher.stop()
        return fetcher

    return asyncio.run(follow())


def test_others_run_while_many_small_batches_are_taken_over(
    partition: Partition, batch: Callable[[], memoryview]
) -> None:
    ends: list[int] = []
    takes(partition, small_batches(batch()), lambda iteration: ends.append(partition.log.log_end_offset))
    assert max(after - before for before, after in pairwise(ends)) == 20
    assert partition.log.log_end_offset == 2 * SMALL


def test_rest_of_a_response_is_dropped_after_a_leader_change(
    partition: Partition, batch: Callable[[], memoryview]
) -> None:
    def elect(iteration: int) -> None:
        if partition.log.log_end_offset == 60 and partition.leader_epoch == 0:
            partition.apply(state(leader=3, epoch=1, isr=(1, 3)))

    takes(partition, small_batches(batch()), elect)
    assert partition.log.log_end_offset == 60
    assert partition.log.high_watermark == 0


def test_rest_of_a_response_is_dropped_when_the_follower_was_elected(
    partition: Partition, batch: Callable[[], memoryview]
) -> None:
    def elect(iteration: int) -> None:
        if partition.log.log_end_offset == 60 and not partition.is_leader:
            partition.apply(state(leader=1, epoch=1, isr=(1,)))
            partition.log.append_as_leader(batch(), 1, NOW)

    takes(partition, small_batches(batch()), elect)
    assert partition.log.log_end_offset == 62
    assert partition.log.epochs.entries[-1] == (1, 60)


def test_rest_of_a_response_is_dropped_when_the_log_was_truncated(
    partition: Partition, batch: Callable[[], memoryview]
) -> None:
    def cut(iteration: int) -> None:
        if partition.log.log_end_offset == 60:
            partition.log.truncate_to(20)

    takes(partition, small_batches(batch()), cut)
    assert partition.log.log_end_offset == 20


def test_rest_of_a_response_is_dropped_when_the_partition_was_removed(
    partition: Partition, batch: Callable[[], memoryview]
) -> None:
    def delete(iteration: int) -> None:
        if partition.log.log_end_offset == 60:
            partition.retire()

    takes(partition, small_batches(batch()), delete)
    assert partition.log.log_end_offset == 60
