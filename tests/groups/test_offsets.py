"""Committed offsets: retention, expiry, deletion, and pending transactional commits."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.coordination.shard import CoordinatorResult, ProducerIdAndEpoch
from barnabas.groups.group import Committer
from barnabas.groups.offsets import Committed
from barnabas.groups.results import commit_error
from barnabas.groups.shard import GroupShard
from barnabas.records.batch import iterate_headers
from barnabas.records.control import EndTransactionMarker
from tests.groups.simulation import GROUP, Codes, Simulation
from tests.support.builders.logs import content
from tests.support.groups.conversations import join_request, subscription

RETENTION_MS = 60_000
TP = TopicPartition("orders", 0)
OTHER = TopicPartition("bills", 0)
PRODUCER = ProducerIdAndEpoch(7, 0)


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(
        offsets_retention_ms=RETENTION_MS, offsets_retention_check_ms=1000, initial_rebalance_delay_ms=0
    )


def joined_member(simulation: Simulation, *topics: str) -> str:
    answer = simulation.join_both_steps(session=1_000_000, protocols={"range": subscription(*topics)})
    simulation.clock.advance(10)
    member: str = answer.response.member_id
    simulation.sync(member, answer.response.generation_id, {member: b"x"})
    return member


def commit_in_transaction(
    simulation: Simulation, offset: int, producer: ProducerIdAndEpoch = PRODUCER
) -> ErrorCode:
    received = Codes()
    committed = Committed(offset, -1, "", simulation.clock.now_ms())

    def handle(shard: GroupShard) -> CoordinatorResult[None]:
        shard.check_commit(GROUP, Committer("", None, -1, in_transaction=True))
        return shard.commit(GROUP, [(TP, committed)])

    simulation.coordinator.write(GROUP, handle, received, errors=commit_error, producer=producer)
    return received[0]


def end_transaction(
    simulation: Simulation, *, committed: bool, producer: ProducerIdAndEpoch = PRODUCER
) -> None:
    received: list[KafkaError | None] = []
    marker = EndTransactionMarker(committed, 0)
    simulation.coordinator.complete_transaction(0, producer, marker, received.append)
    assert received == [None]


def commit_in_turn(simulation: Simulation, committed: Committed, received: Codes) -> None:
    """A commit that waits for the end of the turn."""
    simulation.coordinator.write(
        GROUP,
        lambda shard: shard.commit(GROUP, [(TP, committed)]),
        received,
        errors=commit_error,
        is_batched=True,
    )


def offset(simulation: Simulation, tp: TopicPartition = TP) -> int | None:
    committed = simulation.offsets().get(tp)
    return committed.offset if committed else None


# -- retention -------------------------------------------------------------------------------------------


def test_offsets_of_a_consumer_without_a_group_expire_after_their_commit(simulation: Simulation) -> None:
    simulation.commit(1)
    simulation.clock.advance(RETENTION_MS - 2000)
    simulation.commit(2, tp=OTHER)
    simulation.clock.advance(3000)
    assert (offset(simulation), offset(simulation, OTHER)) == (None, 2)
    simulation.clock.advance(RETENTION_MS)
    assert GROUP not in simulation.shard.groups
    simulation.check_that_replay_equals_memory()


def test_offsets_of_a_group_are_kept_as_long_as_it_has_members(simulation: Simulation) -> None:
    member = joined_member(simulation, "orders")
    simulation.commit(1, member, 1)
    simulation.clock.advance(5 * RETENTION_MS)
    assert offset(simulation) == 1
    simulation.leave(member)
    simulation.clock.advance(RETENTION_MS - 2000)
    assert offset(simulation) == 1
    simulation.clock.advance(3000)
    assert GROUP not in simulation.shard.groups
    simulation.check_that_replay_equals_memory()


def test_offsets_of_topics_that_no_member_consumes_expire(simulation: Simulation) -> None:
    member = joined_member(simulation, "orders")
    simulation.commit(1, member, 1, TP)
    simulation.commit(2, member, 1, OTHER)
    simulation.clock.advance(RETENTION_MS + 2000)
    assert (offset(simulation), offset(simulation, OTHER)) == (1, None)


def test_offsets_of_members_that_cannot_be_understood_are_kept(simulation: Simulation) -> None:
    answer = simulation.join_both_steps(session=1_000_000, protocols={"range": b"\x00"})
    simulation.clock.advance(10)
    member = answer.response.member_id
    simulation.sync(member, 1, {})
    simulation.commit(2, member, 1, OTHER)
    simulation.clock.advance(RETENTION_MS + 2000)
    assert offset(simulation, OTHER) == 2


def test_an_offset_may_bring_its_own_end(simulation: Simulation) -> None:
    committed = Committed(5, -1, "", simulation.clock.now_ms(), simulation.clock.now_ms() + 5000)
    commit_in_turn(simulation, committed, Codes())
    simulation.machine.run_soon()
    simulation.check_that_replay_equals_memory()
    simulation.clock.advance(4000)
    assert offset(simulation) == 5
    simulation.clock.advance(3000)
    assert GROUP not in simulation.shard.groups


def test_offsets_of_a_deleted_topic_are_dropped(simulation: Simulation) -> None:
    simulation.commit(1)
    simulation.commit(2, tp=OTHER)
    simulation.coordinator.topics_changed((), ["orders"])
    assert (offset(simulation), offset(simulation, OTHER)) == (None, 2)
    simulation.check_that_replay_equals_memory()


def test_a_deleted_group_leaves_nothing(simulation: Simulation) -> None:
    simulation.commit(1)
    commit_in_transaction(simulation, 9)
    assert simulation.delete() is ErrorCode.NONE
    assert simulation.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    end_transaction(simulation, committed=True)
    assert offset(simulation) is None
    simulation.check_that_replay_equals_memory()


# -- transactions ----------------------------------------------------------------------------------------


def test_an_offset_in_a_transaction_counts_when_it_is_committed(simulation: Simulation) -> None:
    simulation.commit(1)
    assert commit_in_transaction(simulation, 5) is ErrorCode.NONE
    assert offset(simulation) == 1
    assert simulation.shard.offsets.is_pending(GROUP, TP)
    simulation.check_that_replay_equals_memory()
    end_transaction(simulation, committed=True)
    assert offset(simulation) == 5
    assert not simulation.shard.offsets.is_pending(GROUP, TP)
    simulation.check_that_replay_equals_memory()


def test_a_transaction_may_commit_the_same_offset_several_times(simulation: Simulation) -> None:
    for number in range(3):
        assert commit_in_transaction(simulation, number) is ErrorCode.NONE
    end_transaction(simulation, committed=True)
    assert commit_in_transaction(simulation, 7) is ErrorCode.NONE
    assert offset(simulation) == 2
    simulation.check_that_replay_equals_memory()


def test_an_offset_in_an_aborted_transaction_never_counts(simulation: Simulation) -> None:
    commit_in_transaction(simulation, 5)
    end_transaction(simulation, committed=False)
    assert offset(simulation) is None
    simulation.check_that_replay_equals_memory()


def test_a_plain_commit_after_one_in_a_transaction_has_the_last_word(simulation: Simulation) -> None:
    commit_in_transaction(simulation, 5)
    simulation.commit(7)
    end_transaction(simulation, committed=True)
    assert offset(simulation) == 7
    simulation.check_that_replay_equals_memory()


def test_a_pending_offset_does_not_expire(simulation: Simulation) -> None:
    simulation.commit(1)
    commit_in_transaction(simulation, 5)
    simulation.clock.advance(3 * RETENTION_MS)
    assert offset(simulation) == 1
    end_transaction(simulation, committed=False)
    simulation.clock.advance(2000)
    assert GROUP not in simulation.shard.groups


def test_pending_offsets_survive_a_move_of_the_coordinator(simulation: Simulation) -> None:
    other = ProducerIdAndEpoch(8, 3)
    commit_in_transaction(simulation, 5)
    commit_in_transaction(simulation, 6, other)
    simulation.restart()
    end_transaction(simulation, committed=True, producer=other)
    assert offset(simulation) == 6
    end_transaction(simulation, committed=True)
    assert offset(simulation) == 6, "the later record counts, not the later marker"
    simulation.check_that_replay_equals_memory()


# -- who may commit --------------------------------------------------------------------------------------


def test_non_member_may_not_commit_for_a_group_with_members(simulation: Simulation) -> None:
    member = joined_member(simulation, "orders")
    assert simulation.commit(1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert simulation.commit(1, "stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert simulation.commit(1, member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert offset(simulation) is None
    simulation.leave(member)
    assert simulation.commit(1) is ErrorCode.NONE


def test_a_commit_between_join_and_sync_has_to_wait(simulation: Simulation) -> None:
    answer = simulation.join_both_steps(session=10_000)
    simulation.clock.advance(10)
    assert simulation.commit(1, answer.response.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_that_is_not_safe_in_time_is_not_acknowledged(simulation: Simulation) -> None:
    received = Codes()
    simulation.machine.holding = True
    commit_in_turn(simulation, Committed(5, -1, "", 0), received)
    simulation.machine.run_soon()
    assert received == []
    simulation.clock.advance(10_001)
    assert received == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    simulation.machine.release()
    assert received == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_commits_of_one_iteration_share_a_batch(simulation: Simulation) -> None:
    received = Codes()
    for number in range(5):
        commit_in_turn(simulation, Committed(number, -1, "", 0), received)
    assert (received, simulation.log.log_end_offset) == ([], 0)
    simulation.machine.run_soon()
    assert received == [ErrorCode.NONE] * 5
    assert len(list(iterate_headers(content(simulation.log.read(0, 1 << 20, 5))))) == 1
    assert offset(simulation) == 4
    simulation.check_that_replay_equals_memory()


def test_requests_of_the_same_iteration_see_the_commit(simulation: Simulation) -> None:
    received = Codes()
    commit_in_turn(simulation, Committed(5, -1, "", 0), received)
    seen: list[object] = []
    simulation.coordinator.read(GROUP, lambda shard: shard.committed(GROUP)[TP].offset, seen.append)
    assert (received, seen) == ([ErrorCode.NONE], [5])


def test_a_join_answers_while_commits_wait_in_their_own_order(simulation: Simulation) -> None:
    simulation.machine.holding = True
    assert simulation.commit(1) is None
    first = simulation.join(join_request(GROUP, session=10_000))
    assert first.response is None, "an answer must not overtake what it may depend on"
    simulation.machine.release()
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
