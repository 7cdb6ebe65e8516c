"""Responses to members of a streams group, step by step, with a manual clock."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.modern import ModernGroupState
from barnabas.groups.streams.members import StreamsMemberState
from barnabas.groups.streams.sizing import StreamsStatus
from barnabas.protocol.messages.streams import Endpoint
from tests.groups.simulation import GROUP
from tests.groups.streams.simulation import (
    REBALANCE_MS,
    SESSION_MS,
    StreamsSimulation,
    assigned,
    statuses,
)
from tests.support.builders.streams import role, sent_topology, subtopology, word_count

EVERYTHING = role("0-0 0-1 0-2 1-0 1-1 1-2")
KEPT, GIVEN = role("0-0 0-1 1-0"), role("0-2 1-1 1-2")


@pytest.fixture
def simulation() -> StreamsSimulation:
    return StreamsSimulation()


def two_members(simulation: StreamsSimulation) -> tuple[int, int]:
    """Both settled; their epochs."""
    first = simulation.arrive("a").member_epoch
    second = simulation.arrive("b").member_epoch
    simulation.beat("a", first, EVERYTHING)
    settled = simulation.beat("a", first, KEPT).member_epoch
    simulation.beat("b", second)
    assert simulation.streams_group.state is ModernGroupState.STABLE
    return settled, second


# -- joining and leaving


def test_the_first_member_gets_every_task(simulation: StreamsSimulation) -> None:
    answer = simulation.arrive("a")
    assert (answer.member_epoch, assigned(answer), statuses(answer)) == (2, EVERYTHING, [])
    assert simulation.streams_group.state is ModernGroupState.STABLE
    quiet = simulation.beat("a", 2)
    assert (quiet.member_epoch, assigned(quiet)) == (2, None)


def test_second_member_waits_until_the_first_has_revoked(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    joined = simulation.arrive("b")
    assert (joined.member_epoch, assigned(joined)) == (3, role())
    response = simulation.beat("a", 2, EVERYTHING)
    assert (response.member_epoch, assigned(response)) == (2, KEPT)
    assert simulation.streams_group.state is ModernGroupState.RECONCILING
    assert assigned(simulation.beat("b", 3)) is None
    done = simulation.beat("a", 2, KEPT)
    assert (done.member_epoch, assigned(done)) == (3, None)
    assert assigned(simulation.beat("b", 3)) == GIVEN
    assert simulation.streams_group.state is ModernGroupState.STABLE  # type: ignore[comparison-overlap]


def test_partitions_of_a_leaving_member_are_assigned_in_the_next_heartbeats(
    simulation: StreamsSimulation,
) -> None:
    epoch, _ = two_members(simulation)
    left = simulation.depart("b")
    assert (left.member_epoch, left.status) == (-1, [])
    assert simulation.streams_group.state is ModernGroupState.ASSIGNING
    assert assigned(simulation.beat("a", epoch)) == EVERYTHING


def test_the_last_leaver_leaves_an_empty_group_behind(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    simulation.depart("a")
    assert simulation.streams_group.state is ModernGroupState.EMPTY
    assert simulation.delete() is ErrorCode.NONE
    assert GROUP not in simulation.shard.groups
    assert GROUP not in simulation.replayed().groups


def test_a_group_with_members_is_not_deleted(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    assert simulation.delete() is ErrorCode.NON_EMPTY_GROUP


def test_full_group_rejects_new_members_and_keeps_its_own() -> None:
    simulation = StreamsSimulation(streams_max_size=1)
    simulation.arrive("a")
    assert simulation.arrive("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert simulation.arrive("a").error_code == ErrorCode.NONE


def test_a_member_that_missed_an_answer_may_ask_again(simulation: StreamsSimulation) -> None:
    epoch, _ = two_members(simulation)
    simulation.depart("b")
    response = simulation.beat("a", epoch, KEPT)
    again = simulation.beat("a", epoch, KEPT)
    assert (again.member_epoch, again.error_code) == (response.member_epoch, ErrorCode.NONE)
    stale = simulation.beat("a", epoch, role("0-0", standby="1-0"))
    assert stale.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert simulation.beat("a", epoch).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert simulation.beat("a", response.member_epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_unknown_members_and_groups_are_refused(simulation: StreamsSimulation) -> None:
    assert simulation.beat("a", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert simulation.depart("a").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    simulation.arrive("a")
    assert simulation.beat("b", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert simulation.depart("b").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert simulation.streams_group.epoch == 2


# -- time


def test_a_silent_member_is_dropped_after_its_session_timeout(simulation: StreamsSimulation) -> None:
    epoch, _ = two_members(simulation)
    for _ in range(2):
        simulation.clock.advance(SESSION_MS - 5000)
        simulation.beat("a", epoch)
    assert set(simulation.streams_group.members) == {"a"}


def test_member_that_does_not_revoke_is_removed_after_its_rebalance_timeout(
    simulation: StreamsSimulation,
) -> None:
    simulation.arrive("a")
    joined = simulation.arrive("b")
    simulation.beat("a", 2, EVERYTHING)
    for _ in range(REBALANCE_MS // 20_000):
        assert "a" in simulation.streams_group.members
        simulation.clock.advance(20_000)
        simulation.beat("a", 2, EVERYTHING)
        simulation.beat("b", joined.member_epoch)
    assert simulation.beat("a", 2, EVERYTHING).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert assigned(simulation.beat("b", 3)) is None
    assert len(simulation.streams_group.members["b"].assigned.active) == 6


def test_a_new_group_waits_for_more_members_before_it_assigns(simulation: StreamsSimulation) -> None:
    simulation.overrides["streams.initial.rebalance.delay.ms"] = "3000"
    first = simulation.arrive("a")
    assert (first.member_epoch, assigned(first)) == (1, role())
    assert statuses(first) == [StreamsStatus.ASSIGNMENT_DELAYED]
    assert statuses(simulation.arrive("b")) == [StreamsStatus.ASSIGNMENT_DELAYED]
    simulation.clock.advance(3000)
    shares = [assigned(simulation.beat(member, 1, role())) for member in "ab"]
    assert [len(share.active) for share in shares if share is not None] == [3, 3]
    assert simulation.streams_group.state is ModernGroupState.STABLE


def test_assignments_keep_their_distance(simulation: StreamsSimulation) -> None:
    simulation.overrides["streams.assignment.interval.ms"] = "1000"
    simulation.arrive("a")
    early = simulation.arrive("b")
    assert (statuses(early), early.member_epoch) == ([StreamsStatus.ASSIGNMENT_DELAYED], 2)
    simulation.clock.advance(1000)
    assert simulation.beat("b", 2, role()).member_epoch == 3


# -- topology and topics


def test_missing_internal_topics_are_handed_to_the_broker_and_awaited() -> None:
    simulation = StreamsSimulation({"lines": 3})
    response = simulation.arrive("a")
    assert (statuses(response), assigned(response)) == ([StreamsStatus.MISSING_INTERNAL_TOPICS], role())
    assert [(topic.name, topic.partitions) for topic in simulation.missing] == [("counts", 3), ("words", 3)]
    assert simulation.streams_group.state is ModernGroupState.NOT_READY
    simulation.create("words", 3)
    assert statuses(simulation.beat("a", response.member_epoch)) == [StreamsStatus.MISSING_INTERNAL_TOPICS]
    simulation.create("counts", 3)
    ready = simulation.beat("a", simulation.streams_group.members["a"].member_epoch)
    assert (statuses(ready), assigned(ready)) == ([], EVERYTHING)


def test_members_give_up_tasks_of_a_deleted_topic(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    simulation.remove_topic("lines")
    response = simulation.beat("a", 2, EVERYTHING)
    assert (statuses(response), assigned(response)) == ([StreamsStatus.MISSING_SOURCE_TOPICS], role())
    simulation.create("lines", 3)
    waits = simulation.beat("a", 2, role())
    assert (statuses(waits), assigned(waits)) == ([], None)  # that it has let go counts from the next step on
    assert assigned(simulation.beat("a", waits.member_epoch, role())) == EVERYTHING


def test_member_may_still_own_tasks_of_removed_partitions(simulation: StreamsSimulation) -> None:
    epoch = simulation.arrive("a").member_epoch
    for name in ("lines", "words", "counts"):
        simulation.remove_topic(name)
        simulation.create(name, 2)
    left = role("0-0 0-1 1-0 1-1")
    response = simulation.beat("a", epoch, EVERYTHING)
    assert (response.error_code, assigned(response)) == (ErrorCode.NONE, left)
    assert simulation.beat("a", epoch, EVERYTHING).error_code == ErrorCode.NONE
    assert simulation.beat("a", epoch, left).member_epoch == epoch + 1
    invented = simulation.beat("a", epoch + 1, role("0-2"))
    assert invented.error_code == ErrorCode.INVALID_REQUEST
    assert invented.error_message == (
        "Task 2 for subtopology 0 is invalid. Number of tasks for this subtopology: 2"
    )


def test_changed_topics_are_not_forgotten_when_a_member_leaves(simulation: StreamsSimulation) -> None:
    epoch, _ = two_members(simulation)
    simulation.remove_topic("lines")
    simulation.depart("b")
    assert statuses(simulation.beat("a", epoch, KEPT)) == [StreamsStatus.MISSING_SOURCE_TOPICS]


def test_an_older_topology_is_stale_and_another_one_is_refused(simulation: StreamsSimulation) -> None:
    simulation.arrive("a", topology=word_count(epoch=2))
    assert StreamsStatus.STALE_TOPOLOGY in statuses(simulation.arrive("b", topology=word_count(epoch=1)))
    other = simulation.arrive("c", topology=sent_topology(subtopology("0", "lines"), epoch=2))
    assert (other.error_code, other.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Topology updates are not supported yet.",
    )
    assert set(simulation.streams_group.members) == {"a", "b"}


def test_a_topology_that_cannot_work_leaves_no_trace(simulation: StreamsSimulation) -> None:
    answer = simulation.arrive("a", topology=sent_topology(subtopology("0", changelogs=["x"])))
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert GROUP not in simulation.shard.groups


def test_standbys_come_and_go_with_the_setting_of_the_group(simulation: StreamsSimulation) -> None:
    first, second = two_members(simulation)
    simulation.overrides["streams.num.standby.replicas"] = "1"
    with_standby = simulation.beat("a", first, KEPT)
    assert assigned(with_standby) == role("0-0 0-1 1-0", standby="1-1 1-2")
    assert assigned(simulation.beat("b", second, GIVEN)) == role("0-2 1-1 1-2", standby="1-0")
    simulation.overrides["streams.num.standby.replicas"] = "0"
    response = simulation.beat("a", with_standby.member_epoch, assigned(with_standby))
    assert assigned(response) == KEPT
    assert simulation.streams_group.members["a"].state is StreamsMemberState.UNREVOKED_TASKS


def test_all_members_must_stop_until_the_group_is_empty(simulation: StreamsSimulation) -> None:
    _, second = two_members(simulation)
    simulation.depart("a", shutdown_application=True)
    assert StreamsStatus.SHUTDOWN_APPLICATION in statuses(simulation.beat("b", second, GIVEN))
    simulation.depart("b")
    assert statuses(simulation.arrive("c")) == []


def test_changed_endpoints_are_announced(simulation: StreamsSimulation) -> None:
    simulation.arrive("a", user_endpoint=Endpoint("here", 1))
    simulation.arrive("b", user_endpoint=Endpoint("there", 2))
    simulation.beat("a", 2, EVERYTHING)
    simulation.beat("a", 2, KEPT)
    response = simulation.beat("b", 3, role())
    assert response.partitions_by_user_endpoint is not None
    shown = {
        one.user_endpoint.host: {place.topic: place.partitions for place in one.active_partitions}
        for one in response.partitions_by_user_endpoint
    }
    assert shown == {"here": {"lines": [0, 1], "words": [0]}, "there": {"lines": [2], "words": [1, 2]}}
    epoch = response.endpoint_information_epoch
    quiet = simulation.beat("b", 3, endpoint_information_epoch=epoch)
    assert quiet.partitions_by_user_endpoint is None


# -- offsets


def test_a_commit_may_be_an_epoch_behind_for_tasks_held_since_then(simulation: StreamsSimulation) -> None:
    first = simulation.arrive("a").member_epoch
    moved = simulation.beat("a", first, rack_id="elsewhere").member_epoch
    assert moved == first + 1
    for epoch, outcome in (
        (moved, ErrorCode.NONE),
        (first, ErrorCode.NONE),
        (first - 1, ErrorCode.STALE_MEMBER_EPOCH),
        (moved + 1, ErrorCode.STALE_MEMBER_EPOCH),
    ):
        assert simulation.commit_of("a", epoch, "lines", 2) is outcome
    assert simulation.commit_of("a", first, "counts") is ErrorCode.STALE_MEMBER_EPOCH
    assert simulation.commit_of("b", moved, "lines") is ErrorCode.UNKNOWN_MEMBER_ID


def test_former_owner_of_a_task_cannot_commit_for_it(simulation: StreamsSimulation) -> None:
    first, _ = two_members(simulation)
    assert simulation.commit_of("a", first - 1, "lines", 0) is ErrorCode.NONE
    assert simulation.commit_of("a", first - 1, "lines", 2) is ErrorCode.STALE_MEMBER_EPOCH


def test_outsiders_commit_only_in_transactions_or_to_an_empty_group(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    assert simulation.commit_of("", -1, "lines") is ErrorCode.UNKNOWN_MEMBER_ID
    assert simulation.commit_of("", -1, "lines", in_transaction=True) is ErrorCode.NONE
    simulation.depart("a")
    assert simulation.commit_of("", -1, "lines") is ErrorCode.NONE


def test_offsets_are_read_with_the_present_epoch(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    group = simulation.streams_group
    group.check_fetch(None, -1)
    group.check_fetch("a", 2)
    with pytest.raises(KafkaError) as failure:
        group.check_fetch("a", 1)
    assert failure.value.code is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(KafkaError) as failure:
        group.check_fetch("b", 2)
    assert failure.value.code is ErrorCode.UNKNOWN_MEMBER_ID


# -- the log


def test_another_coordinator_continues_at_the_same_state(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    simulation.arrive("b")
    simulation.beat("a", 2, EVERYTHING)
    simulation.restart()
    assert simulation.streams_group.members["a"].state is StreamsMemberState.UNREVOKED_TASKS
    assert simulation.beat("a", 2, KEPT).member_epoch == 3
    assert assigned(simulation.beat("b", 3)) == GIVEN
    simulation.restart()
    simulation.clock.advance(SESSION_MS)
    assert simulation.streams_group.is_empty


def test_nothing_changes_when_the_log_cannot_be_written(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    simulation.files.fail_at(1, OSError(28, "no space left"), "append")
    assert simulation.depart("a").error_code == ErrorCode.NOT_COORDINATOR
    simulation.files.heal()
    assert set(simulation.streams_group.members) == {"a"}
    simulation.clock.advance(SESSION_MS)
    assert simulation.streams_group.is_empty, "its session is still watched"


def test_offsets_of_an_empty_classic_group_are_taken_over(simulation: StreamsSimulation) -> None:
    assert simulation.commit(7) is ErrorCode.NONE
    assert simulation.arrive("a").error_code == ErrorCode.NONE
    assert len(simulation.offsets()) == 1
    simulation.restart()
    assert simulation.streams_group.members
    assert len(simulation.offsets()) == 1
