"""Single transitions of a consumer group; no socket, no sleep."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from barnabas.groups.classic.group import ClassicGroup, ClassicGroupState
from barnabas.groups.consumer.member import MemberState
from barnabas.groups.consumer.migration import read_assignment
from barnabas.groups.modern import ModernGroupState
from tests.groups.consumer.simulation import (
    REBALANCE_MS,
    SESSION_MS,
    ConsumerSimulation,
    told,
    topic_id,
)
from tests.groups.simulation import GROUP
from tests.support.groups.conversations import join_request, subscription

ORDERS, BILLS = topic_id("orders"), topic_id("bills")


@pytest.fixture
def simulation() -> ConsumerSimulation:
    return ConsumerSimulation({"orders": 4, "bills": 2})


def test_the_first_member_gets_everything_at_once(simulation: ConsumerSimulation) -> None:
    answer = simulation.joins("a", "orders")
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    assert told(answer) == {ORDERS: {0, 1, 2, 3}}
    assert simulation.consumer_group.state is ModernGroupState.STABLE
    simulation.check_that_replay_equals_memory()


def test_member_without_changes_gets_an_empty_response(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    end = simulation.log.log_end_offset
    answer = simulation.beats("a", 2)
    assert answer.assignment is None
    assert simulation.log.log_end_offset == end


def test_partitions_are_handed_over_only_when_they_are_given_up(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    assert told(simulation.joins("b", "orders")) == {}
    group = simulation.consumer_group
    assert group.members["b"].state is MemberState.UNRELEASED
    requested = simulation.beats("a", 2)
    assert (requested.member_epoch, told(requested)) == (2, {ORDERS: {0, 1}})
    assert group.members["a"].state is MemberState.UNREVOKED
    assert told(simulation.beats("b", 3)) is None  # still with a
    simulation.beats("a", 2, {ORDERS: {0, 1, 2}})  # has given up one of two
    assert group.members["a"].state is MemberState.UNREVOKED
    assert simulation.beats("a", 2, {ORDERS: {0, 1}}).member_epoch == 3
    assert told(simulation.beats("b", 3)) == {ORDERS: {2, 3}}
    assert group.state is ModernGroupState.STABLE
    simulation.check_that_replay_equals_memory()


def test_an_unaffected_member_moves_on_without_giving_up_anything() -> None:
    simulation = ConsumerSimulation({"orders": 4, "bills": 2})
    simulation.joins("a", "orders")
    simulation.joins("b", "bills")
    answer = simulation.beats("a", 2)
    assert (answer.member_epoch, told(answer)) == (3, None)


def test_member_that_does_not_revoke_is_fenced(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    simulation.joins("b", "orders")
    simulation.beats("a", 2)
    for _ in range(4):  # both are alive
        simulation.clock.advance(REBALANCE_MS // 4)
        simulation.beats("a", 2, {ORDERS: {0, 1, 2, 3}})
        simulation.beats("b", 3)
    members = simulation.consumer_group.members
    assert set(members) == {"b"}
    assert members["b"].owned.keys() == {ORDERS}
    assert set(members["b"].owned[ORDERS]) == {0, 1, 2, 3}


def test_a_silent_member_is_fenced(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    simulation.clock.advance(SESSION_MS - 1)
    assert "a" in simulation.consumer_group.members
    simulation.clock.advance(2)
    assert simulation.consumer_group.state is ModernGroupState.EMPTY
    assert simulation.beats("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_session_timeout_of_the_group_counts(simulation: ConsumerSimulation) -> None:
    simulation.overrides["consumer.session.timeout.ms"] = "50000"
    simulation.joins("a", "orders")
    simulation.clock.advance(49_999)
    assert simulation.consumer_group.members
    simulation.clock.advance(2)
    assert not simulation.consumer_group.members


def test_heartbeat_interval_of_the_group_is_returned(simulation: ConsumerSimulation) -> None:
    simulation.overrides["consumer.heartbeat.interval.ms"] = "7000"
    assert simulation.joins("a", "orders").heartbeat_interval_ms == 7000


def test_members_that_come_together_are_assigned_together(simulation: ConsumerSimulation) -> None:
    simulation.overrides["consumer.assignment.interval.ms"] = "1000"
    simulation.joins("a", "orders")
    for name in ("b", "c"):
        simulation.joins(name, "orders")
    assert simulation.consumer_group.assignment_epoch == 2
    simulation.clock.advance(1000)
    simulation.beats("a", 2)
    assert simulation.consumer_group.assignment_epoch == simulation.consumer_group.epoch == 4


def test_a_clock_that_was_set_back_does_not_put_off_an_assignment(simulation: ConsumerSimulation) -> None:
    simulation.overrides["consumer.assignment.interval.ms"] = "1000"
    simulation.joins("a", "orders")
    simulation.clock._start_ms -= 3 * 3_600_000
    simulation.joins("b", "orders")
    assert simulation.consumer_group.assignment_epoch == simulation.consumer_group.epoch == 3


def test_a_member_that_missed_an_answer_may_ask_again(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    simulation.joins("b", "bills")
    assert simulation.beats("a", 2).member_epoch == 3
    again = simulation.beats("a", 2, {ORDERS: {0, 1}})
    assert (again.error_code, again.member_epoch) == (0, 3)
    fenced = simulation.beats("a", 2, {BILLS: {0}})
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert fenced.error_message == (
        "The consumer group member has a smaller member epoch (2) than the one known by the group "
        "coordinator (3). The member must abandon all its partitions and rejoin."
    )


def test_new_partitions_raise_the_epoch_with_the_next_heartbeat(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    simulation.create("orders", 6)
    assert simulation.consumer_group.epoch == 2
    answer = simulation.beats("a", 2)
    assert (answer.member_epoch, told(answer)) == (3, {ORDERS: {0, 1, 2, 3, 4, 5}})


def test_topics_of_others_do_not_raise_the_epoch(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    simulation.create("else", 1)
    simulation.beats("a", 2)
    assert simulation.consumer_group.epoch == 2


def test_a_topic_that_is_created_later_is_assigned(simulation: ConsumerSimulation) -> None:
    assert told(simulation.joins("a", "later")) == {}
    simulation.create("later", 2)
    assert told(simulation.beats("a", 2)) == {topic_id("later"): {0, 1}}


def test_a_deleted_topic_is_taken_away(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders", "bills")
    simulation.remove_topic("bills")
    assert told(simulation.beats("a", 2)) == {ORDERS: {0, 1, 2, 3}}


def test_a_changed_subscription_takes_partitions_away_before_the_next_target() -> None:
    simulation = ConsumerSimulation({"orders": 4, "bills": 2})
    simulation.overrides["consumer.assignment.interval.ms"] = "1000"
    simulation.joins("a", "orders", "bills")
    answer = simulation.beats("a", 2, subscribed_topic_names=["orders"])
    assert told(answer) == {ORDERS: {0, 1, 2, 3}}
    assert simulation.consumer_group.members["a"].revoking == {BILLS: {0: 2, 1: 2}}


def test_most_votes_choose_the_assignor(simulation: ConsumerSimulation) -> None:
    simulation.create("orders", 5)
    simulation.joins("a", "orders", "bills", server_assignor="range")
    simulation.joins("b", "orders", "bills", server_assignor="range")
    targets = simulation.consumer_group.targets
    assert targets == {"a": {ORDERS: {0, 1, 2}, BILLS: {0}}, "b": {ORDERS: {3, 4}, BILLS: {1}}}


def test_full_group_rejects_new_members() -> None:
    simulation = ConsumerSimulation({"orders": 1}, consumer_max_size=1)
    simulation.joins("a", "orders")
    answer = simulation.joins("b", "orders")
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert simulation.beats("a", 2).error_code == 0


# -- static members -------------------------------------------------------------------------------------


def test_a_static_member_that_will_be_back_keeps_its_partitions(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders", instance_id="one")
    assert simulation.beats("a", -2, instance_id="one").member_epoch == -2
    simulation.clock.advance(SESSION_MS // 2)
    answer = simulation.joins("b", "orders", instance_id="one")
    assert (answer.member_epoch, told(answer)) == (2, {ORDERS: {0, 1, 2, 3}})
    assert set(simulation.consumer_group.members) == {"b"}
    fenced = simulation.beats("a", 2, instance_id="one")
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    simulation.check_that_replay_equals_memory()


def test_a_static_member_that_is_still_there_is_not_replaced(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders", instance_id="one")
    refused = simulation.joins("b", "orders", instance_id="one")
    assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert set(simulation.consumer_group.members) == {"a"}


def test_a_static_member_that_stays_away_is_fenced(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders", instance_id="one")
    simulation.beats("a", -2, instance_id="one")
    simulation.clock.advance(SESSION_MS + 1)
    assert simulation.consumer_group.state is ModernGroupState.EMPTY
    assert not simulation.consumer_group.static_members


# -- offsets --------------------------------------------------------------------------------------------


def test_old_epoch_may_commit_partitions_owned_since_then(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    simulation.joins("b", "orders")
    simulation.beats("a", 2)
    simulation.beats("a", 2, {ORDERS: {0, 1}})
    simulation.beats("b", 3)
    assert simulation.commits("a", 3, TopicPartition("orders", 3)) == ErrorCode.NONE
    assert simulation.commits("a", 2, TopicPartition("orders", 0)) == ErrorCode.NONE
    assert simulation.commits("a", 2, TopicPartition("orders", 3)) == ErrorCode.STALE_MEMBER_EPOCH
    assert simulation.commits("b", 2, TopicPartition("orders", 3)) == ErrorCode.STALE_MEMBER_EPOCH
    assert simulation.commits("a", 4, TopicPartition("orders", 0)) == ErrorCode.STALE_MEMBER_EPOCH
    assert simulation.commits("c", 3, TopicPartition("orders", 0)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert simulation.commits("a", 3, TopicPartition("orders", 0), 8) == ErrorCode.UNSUPPORTED_VERSION


# -- patterns -------------------------------------------------------------------------------------------


def test_a_pattern_is_matched_in_the_background(simulation: ConsumerSimulation) -> None:
    regex = {"subscribed_topic_names": None, "subscribed_topic_regex": "(ord|bil).*s"}
    assert told(simulation.joins("a", **regex)) == {}
    answer = simulation.beats("a", 1)
    assert (answer.member_epoch, told(answer)) == (2, {ORDERS: {0, 1, 2, 3}, BILLS: {0, 1}})
    simulation.check_that_replay_equals_memory()


def test_a_pattern_finds_new_topics_after_a_few_seconds(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", subscribed_topic_names=None, subscribed_topic_regex="or.*")
    simulation.beats("a", 1)
    simulation.create("oranges", 1)
    assert told(simulation.beats("a", 2)) is None
    simulation.clock.advance(5001)
    simulation.beats("a", 2)
    assert told(simulation.beats("a", 2)) == {ORDERS: {0, 1, 2, 3}, topic_id("oranges"): {0}}


def test_pattern_is_dropped_with_its_last_subscriber(simulation: ConsumerSimulation) -> None:
    for name in ("a", "b"):
        simulation.joins(name, subscribed_topic_names=None, subscribed_topic_regex="orders")
    simulation.beats("a", -1)
    assert set(simulation.consumer_group.resolved) == {"orders"}
    simulation.beats("b", -1)
    assert not simulation.consumer_group.resolved
    simulation.check_that_replay_equals_memory()


def test_a_change_to_a_pattern_without_topics_frees_its_partitions(simulation: ConsumerSimulation) -> None:
    """The other member keeps its subscription, so the subscribed topics of the group are the same."""
    for name in ("a", "b"):
        answer = simulation.joins(name, subscribed_topic_names=None, subscribed_topic_regex="orders")
    assert (answer.member_epoch, told(answer)) == (3, {ORDERS: {2, 3}})
    assert told(simulation.beats("a", 1)) == {ORDERS: {0, 1}}
    assert told(simulation.beats("b", 3, {}, subscribed_topic_regex="nothing")) == {}
    assert simulation.beats("b", 3, {}).member_epoch == 4
    assert told(simulation.beats("a", 3)) == {ORDERS: {0, 1, 2, 3}}
    group = simulation.consumer_group
    assert group.targets == {"a": {ORDERS: {0, 1, 2, 3}}, "b": {}}
    assert group.state is ModernGroupState.STABLE


@pytest.mark.parametrize("pattern", ["[a", "(a", "*", "(?=x)", "x" * 5000, "((a{100}){100}){100}"])
def test_a_bad_pattern_is_refused_and_changes_nothing(simulation: ConsumerSimulation, pattern: str) -> None:
    end = simulation.log.log_end_offset
    answer = simulation.joins("a", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert simulation.log.log_end_offset == end
    assert GROUP not in simulation.shard.groups


# -- restarts -------------------------------------------------------------------------------------------


def test_everything_survives_another_coordinator(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    simulation.joins("b", "orders")
    simulation.beats("a", 2)
    simulation.restart()
    assert simulation.consumer_group.members["a"].state is MemberState.UNREVOKED
    assert simulation.beats("a", 2, {ORDERS: {0, 1}}).member_epoch == 3
    assert told(simulation.beats("b", 3)) == {ORDERS: {2, 3}}


def test_sessions_and_revocations_are_timed_again_after_a_restart(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    simulation.joins("b", "orders")
    simulation.beats("a", 2)
    simulation.restart()
    simulation.clock.advance(SESSION_MS + 1)
    assert simulation.consumer_group.state is ModernGroupState.EMPTY


def test_topic_changes_without_a_coordinator_are_detected(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    simulation.coordinator.stop()
    simulation.create("orders", 5)
    simulation.restart()
    assert told(simulation.beats("a", 2)) == {ORDERS: {0, 1, 2, 3, 4}}


def test_a_fence_that_could_not_be_written_is_tried_again(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    simulation.files.fail_at(1, OSError(28, "no space left"), "append", forever=True)
    simulation.clock.advance(SESSION_MS + 1)
    assert "a" in simulation.consumer_group.members
    simulation.files.heal()
    simulation.clock.advance(SESSION_MS + 1)
    assert "a" not in simulation.consumer_group.members


# -- both protocols -------------------------------------------------------------------------------------


def test_a_classic_group_becomes_a_consumer_group_and_back(simulation: ConsumerSimulation) -> None:
    old = simulation.join_both_steps()
    simulation.clock.advance(3000)
    simulation.sync(old.response.member_id, 1, {old.response.member_id: b""})
    member = old.response.member_id
    simulation.joins("new", "orders")
    assert set(simulation.consumer_group.members) == {member, "new"}
    simulation.check_that_replay_equals_memory()
    assert simulation.heartbeat(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    simulation.beats("new", -1)
    group = simulation.group
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == (ClassicGroupState.PREPARING_REBALANCE, 2)
    assert simulation.heartbeat(member, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    replayed = simulation.replayed().groups[GROUP]
    assert isinstance(replayed, ClassicGroup)
    assert set(replayed.members) == {member}


def test_a_classic_process_behind_the_last_new_instance_makes_the_group_classic_again() -> None:
    simulation = ConsumerSimulation({"orders": 4, "bills": 2}, initial_rebalance_delay_ms=0)
    simulation.joins("new", "orders", instance_id="one")
    simulation.beats("new", -2, instance_id="one")
    answer = simulation.join(join_request(GROUP, instance="one"))
    group = simulation.group
    assert isinstance(group, ClassicGroup)
    assert answer.response.member_id in group.members
    assert answer.response.generation_id == group.generation == 2
    assert (group.state, group.static_members) == (
        ClassicGroupState.STABLE,
        {"one": answer.response.member_id},
    )
    synced = simulation.sync(answer.response.member_id, 2)
    assert read_assignment(synced.response.assignment).assigned_partitions[0].partitions == [0, 1, 2, 3]
    replayed = simulation.replayed().groups[GROUP]
    assert isinstance(replayed, ClassicGroup)
    assert set(replayed.members) == set(group.members)


def test_a_policy_can_forbid_to_change_the_protocol() -> None:
    simulation = ConsumerSimulation({"orders": 4}, migration_policy="disabled")
    simulation.join_both_steps()
    refused = simulation.joins("new", "orders")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == (
        f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is disabled."
    )


def test_a_classic_member_that_does_not_rejoin_in_time_is_fenced(simulation: ConsumerSimulation) -> None:
    simulation.joins("new", "orders")
    old = simulation.join_both_steps(session=30_000, rebalance=10_000)
    member, generation = old.response.member_id, old.response.generation_id
    simulation.sync(member, generation)
    simulation.joins("other", "orders")
    assert simulation.heartbeat(member, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    simulation.clock.advance(9_999)
    assert member in simulation.consumer_group.members
    simulation.clock.advance(2)
    assert member not in simulation.consumer_group.members


def test_an_empty_consumer_group_becomes_a_classic_one(simulation: ConsumerSimulation) -> None:
    simulation.joins("new", "orders")
    simulation.beats("new", -1)
    simulation.join_both_steps()
    assert isinstance(simulation.shard.groups[GROUP], ClassicGroup)


def test_an_empty_classic_group_becomes_a_consumer_one(simulation: ConsumerSimulation) -> None:
    simulation.commit(5)
    simulation.joins("new", "orders")
    assert simulation.consumer_group.state is ModernGroupState.STABLE
    assert simulation.offsets()
    simulation.check_that_replay_equals_memory()


def test_only_an_empty_group_is_deleted(simulation: ConsumerSimulation) -> None:
    simulation.joins("a", "orders")
    assert simulation.delete() is ErrorCode.NON_EMPTY_GROUP
    simulation.beats("a", -1)
    assert simulation.delete() is ErrorCode.NONE
    assert GROUP not in simulation.shard.groups
    assert GROUP not in simulation.replayed().groups


def test_a_classic_group_whose_members_left_before_their_first_generation_is_replaced(
    simulation: ConsumerSimulation,
) -> None:
    joined = simulation.join(join_request(GROUP, protocols={"range": subscription("orders")}), version=3)
    (member,) = simulation.group.members
    assert joined.response is None
    assert simulation.leave(member) == [ErrorCode.NONE]
    assert simulation.joins("a", "orders").error_code == ErrorCode.NONE
    assert set(simulation.consumer_group.members) == {"a"}
    simulation.clock.advance(10_000)
    simulation.check_that_replay_equals_memory()
