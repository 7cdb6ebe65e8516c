"""Targets of large groups: computed in slices, written in parts, without blocking other requests."""

from __future__ import annotations

import pytest
from hypothesis.stateful import run_state_machine_as_test

from barnabas.common.clock import TurnLimit
from barnabas.common.errors import ErrorCode
from barnabas.groups import assigning
from barnabas.groups.consumer import targets
from barnabas.groups.memory_budget import MemoryLimits
from barnabas.groups.modern import ModernGroupState
from barnabas.groups.share import heartbeats as share
from barnabas.groups.streams import manager as streams
from barnabas.groups.streams.sizing import StreamsStatus
from tests.groups.consumer.simulation import ConsumerSimulation, told, topic_id
from tests.groups.consumer.test_model import ConsumerGroupModel
from tests.groups.modern_model import steps
from tests.groups.simulation import GROUP
from tests.groups.streams.simulation import StreamsSimulation, assigned, statuses
from tests.groups.streams.test_model import StreamsGroupModel
from tests.support.builders.streams import role

TOPICS = {f"t{number}": 4 for number in range(5)}


@pytest.fixture
def every_group_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (targets, share, streams):
        monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(assigning, "LIMIT", TurnLimit(steps=2))
    monkeypatch.setattr(assigning, "PART_BYTES", 1)


class Slowly:
    """Runs slices of a simulation on demand."""

    def __init__(self, simulation: ConsumerSimulation) -> None:
        self._machine = simulation.machine
        simulation.machine.run_soon = lambda: None  # type: ignore[method-assign]

    def turn(self) -> None:
        self._machine.soon.pop(0)()

    def rest(self) -> int:
        """Take all turns that are left: how many were they?"""
        iterations = 0
        while self._machine.soon:
            self.turn()
            iterations += 1
        return iterations


@pytest.fixture
def simulation(every_group_is_large: None) -> ConsumerSimulation:
    return ConsumerSimulation(TOPICS)


def test_a_small_group_is_assigned_with_the_heartbeat_that_asks_for_it() -> None:
    simulation = ConsumerSimulation(TOPICS)
    Slowly(simulation)
    joined = simulation.joins("a", *TOPICS)
    assert (joined.member_epoch, told(joined)) == (2, {topic_id(name): set(range(4)) for name in TOPICS})


def test_member_joining_a_large_group_gets_its_partitions_later(simulation: ConsumerSimulation) -> None:
    slowly = Slowly(simulation)
    joined = simulation.joins("a", *TOPICS)
    assert (joined.member_epoch, told(joined), joined.heartbeat_interval_ms) == (1, {}, 1000)
    assert simulation.consumer_group.state is ModernGroupState.ASSIGNING
    assert slowly.rest() > 5
    answer = simulation.beats("a", 1, {})
    assert (answer.member_epoch, told(answer)) == (2, {topic_id(name): set(range(4)) for name in TOPICS})
    assert answer.heartbeat_interval_ms == 5000
    simulation.check_that_replay_equals_memory()


def test_heartbeats_go_on_with_the_target_before(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", *TOPICS)
    has = told(simulation.beats("a", 1, {}))
    slowly = Slowly(simulation)
    assert simulation.joins("b", *TOPICS).member_epoch == 2
    for _ in range(5):
        slowly.turn()
        answer = simulation.beats("a", 2, has)
        assert (answer.member_epoch, answer.error_code) == (2, ErrorCode.NONE)
    slowly.rest()
    revoked = told(simulation.beats("a", 2, has))
    assert revoked is not None
    assert sum(map(len, revoked.values())) == 10


def test_a_target_counts_though_the_group_has_changed_meanwhile(simulation: ConsumerSimulation) -> None:
    """A member that keeps joining and leaving does not prevent assignments."""
    slowly = Slowly(simulation)
    simulation.joins("a", *TOPICS)
    for number in range(20):
        simulation.joins(f"restless-{number}", *TOPICS)
        for _ in range(4):
            if simulation.machine.soon:
                slowly.turn()
        simulation.beats(f"restless-{number}", -1)
    group = simulation.consumer_group
    assert 1 < group.assignment_epoch < group.epoch
    assert group.targets.keys() <= group.members.keys()
    simulation.check_that_replay_equals_memory()
    assert told(simulation.beats("a", 1, {}))


def test_there_is_one_computation_for_a_group_at_a_time(simulation: ConsumerSimulation) -> None:
    Slowly(simulation)
    for number in range(5):
        simulation.joins(f"m{number}", *TOPICS)
    assert len(simulation.machine.soon) == 1


def test_replaced_static_member_keeps_its_computed_target(
    simulation: ConsumerSimulation,
) -> None:
    slowly = Slowly(simulation)
    simulation.joins("a", *TOPICS, instance_id="one")
    for _ in range(3):
        slowly.turn()
    simulation.beats("a", -2, instance_id="one")
    simulation.joins("b", *TOPICS, instance_id="one")
    slowly.rest()
    assert simulation.consumer_group.targets["b"].keys() == {topic_id(name) for name in TOPICS}
    assert "a" not in simulation.consumer_group.targets
    simulation.check_that_replay_equals_memory()


def test_a_topic_may_go_while_partitions_are_dealt_out(simulation: ConsumerSimulation) -> None:
    slowly = Slowly(simulation)
    for member in "ab":
        simulation.joins(member, *TOPICS)
    slowly.turn()
    simulation.remove_topic("t1")
    slowly.rest()
    simulation.beats("a", 1, {})
    slowly.rest()
    answer = simulation.beats("a", simulation.consumer_group.members["a"].member_epoch, {})
    assert answer.error_code == ErrorCode.NONE
    assert topic_id("t1") not in simulation.consumer_group.targets["a"]


def test_unwritten_results_are_computed_again(simulation: ConsumerSimulation) -> None:
    slowly = Slowly(simulation)
    simulation.joins("a", *TOPICS)
    simulation.files.fail_at(1, OSError(28, "no space left"), "append")
    slowly.rest()
    simulation.files.heal()
    assert simulation.consumer_group.state is ModernGroupState.ASSIGNING
    simulation.beats("a", 1, {})
    slowly.rest()
    assert simulation.consumer_group.assignment_epoch == simulation.consumer_group.epoch


def test_another_coordinator_begins_again(simulation: ConsumerSimulation) -> None:
    slowly = Slowly(simulation)
    for member in "abc":
        simulation.joins(member, *TOPICS)
    while not simulation.consumer_group.targets:
        slowly.turn()
    simulation.restart()
    slowly.rest()  # the old computation finds no group
    simulation.check_that_replay_equals_memory()
    simulation.beats("a", 1, {})
    slowly.rest()
    group = simulation.consumer_group
    assert group.assignment_epoch == group.epoch
    shares = [sum(map(len, target.values())) for target in group.targets.values()]
    assert sorted(shares) == [6, 7, 7]


def test_large_streams_group_reports_a_delayed_assignment(every_group_is_large: None) -> None:
    simulation = StreamsSimulation()
    slowly = Slowly(simulation)
    joined = simulation.arrive("a")
    assert (joined.member_epoch, assigned(joined)) == (1, role())
    assert statuses(joined) == [StreamsStatus.ASSIGNMENT_DELAYED]
    slowly.rest()
    answer = simulation.beat("a", 1, role())
    assert (answer.member_epoch, assigned(answer)) == (2, role("0-0 0-1 0-2 1-0 1-1 1-2"))


def test_a_subscription_has_a_limit() -> None:
    simulation = ConsumerSimulation(TOPICS, bounds=MemoryLimits(topics=3))
    assert simulation.joins("a", "t0", "t1", "t2").error_code == ErrorCode.NONE
    refused = simulation.joins("b", *TOPICS)
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "barnabas.groups.max.subscribed.topics allows 3" in (refused.error_message or "")
    ledger = simulation.coordinator.ledger
    assert (ledger.max_topics, ledger.refused["topics"]) == (3, 1)


def test_members_with_equal_subscriptions_share_topic_names() -> None:
    simulation = ConsumerSimulation(TOPICS)
    for member in "abc":
        simulation.joins(member, *TOPICS)
    one, *others = (member.subscribed_topic_names for member in simulation.consumer_group.members.values())
    assert all(other is one for other in others)
    assert simulation.coordinator.ledger.member_bytes == 3 * 1000 + 5 * (100 + 2)
    for member in "abc":
        simulation.beats(member, -1)
    assert simulation.coordinator.ledger.member_bytes == 0
    assert GROUP in simulation.shard.groups


def test_consumers_get_on_when_every_group_is_large(every_group_is_large: None) -> None:
    """The model of a consumer group, with a turn for every second step of a computation."""
    _run(ConsumerGroupModel)


def test_threads_get_on_when_every_group_is_large(every_group_is_large: None) -> None:
    _run(StreamsGroupModel)


def _run(model: type) -> None:
    run_state_machine_as_test(model, settings=steps(15))
