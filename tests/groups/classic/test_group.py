"""Classic groups: every transition, every timeout, every unexpected request."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.groups.classic.group import TRANSITIONS, ClassicGroup, ClassicGroupState
from barnabas.groups.classic.member import MAX_NAMES, ConsumedTopics, subscribed_topics
from barnabas.groups.classic.records import READ_AT_ONCE, from_value
from barnabas.protocol.coordinator_records import REBALANCE_REASON_HEADER
from barnabas.protocol.messages.records.group import GroupMetadataValue, MemberMetadata
from barnabas.records.batch import iterate_headers
from barnabas.records.record import iterate_records
from tests.groups.simulation import GROUP, Answer, Simulation
from tests.support.builders.logs import content
from tests.support.groups.conversations import join_request

SESSION_MS = 10_000
REBALANCE_MS = 30_000
TIMES: dict[str, Any] = {"session": SESSION_MS, "rebalance": REBALANCE_MS}
INITIAL_DELAY_MS = 3000


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(offsets_retention_check_ms=10**9, initial_rebalance_delay_ms=INITIAL_DELAY_MS)


def settle(simulation: Simulation, *joined: Answer) -> list[str]:
    """Bring members that have joined into a stable generation; their ids, the leader's first."""
    if simulation.group.generation == 0:
        simulation.clock.advance(2 * INITIAL_DELAY_MS)
    leader = next(answer for answer in joined if answer.response.members)
    others = [answer for answer in joined if answer is not leader]
    members = [answer.response.member_id for answer in (leader, *others)]
    generation = leader.response.generation_id
    waiting = [simulation.sync(member, generation) for member in members[1:]]
    waiting.append(simulation.sync(members[0], generation, {member: member.encode() for member in members}))
    assert all(answer.error is ErrorCode.NONE for answer in waiting)
    assert simulation.group.state is ClassicGroupState.STABLE
    return members


def pair(simulation: Simulation) -> list[str]:
    """A stable group of two."""
    joined = [simulation.join_both_steps(GROUP, **TIMES) for _ in range(2)]
    return settle(simulation, *joined)


def reasons(simulation: Simulation) -> list[str]:
    """Logged reasons of each generation."""
    log = simulation.log
    data = memoryview(content(log.read(0, 1 << 20, log.log_end_offset)))
    return [
        (value or b"").decode()
        for position, header in iterate_headers(data)
        for record in iterate_records(data[position:], header)
        for name, value in record.headers
        if name == REBALANCE_REASON_HEADER
    ]


@pytest.mark.parametrize("source", list(ClassicGroupState))
@pytest.mark.parametrize("target", list(ClassicGroupState))
def test_only_transitions_of_the_table_are_possible(
    source: ClassicGroupState, target: ClassicGroupState
) -> None:
    group = ClassicGroup(GROUP, 0)
    group.state = source
    if target in TRANSITIONS[source]:
        group.transition(target, 1)
        assert (group.state, group.previous_state, group.state_since_ms) == (target, source, 1)
    else:
        with pytest.raises(RuntimeError, match="cannot become"):
            group.transition(target, 1)


def test_every_transition_of_the_table_happens(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[ClassicGroupState, ClassicGroupState]] = set()
    original = ClassicGroup.transition

    def noted(group: ClassicGroup, to: ClassicGroupState, now_ms: int) -> None:
        seen.add((group.state, to))
        original(group, to, now_ms)

    monkeypatch.setattr(ClassicGroup, "transition", noted)
    leader, other = pair(simulation)
    simulation.leave(other)
    simulation.restart()  # while stable again, as far as the log knows
    simulation.leave(leader, other)
    assert simulation.delete() is ErrorCode.NONE
    simulation.join_both_steps(**TIMES)
    simulation.restart()  # while members are joining
    joined = simulation.join_both_steps(**TIMES)
    simulation.clock.advance(INITIAL_DELAY_MS)
    simulation.join(join_request(GROUP, joined.response.member_id, protocols={"range": b"new"}, **TIMES))
    simulation.restart()  # while an assignment is awaited
    settle(simulation, simulation.join_both_steps(**TIMES))
    simulation.restart()
    assert seen == {(source, target) for source in ClassicGroupState for target in TRANSITIONS[source]}


# -- joining ---------------------------------------------------------------------------------------------


def test_a_new_group_waits_for_more_members(simulation: Simulation) -> None:
    first = simulation.join_both_steps(**TIMES)
    simulation.clock.advance(2000)
    second = simulation.join_both_steps(**TIMES)
    simulation.clock.advance(1500)
    assert first.error is None, "the second member has extended the delay"
    simulation.clock.advance(3000)
    assert {first.response.generation_id, second.response.generation_id} == {1}


def test_the_initial_delay_ends_with_the_rebalance_timeout(simulation: Simulation) -> None:
    first = simulation.join_both_steps(session=SESSION_MS, rebalance=7000)
    for _ in range(3):
        simulation.clock.advance(2000)
        simulation.join_both_steps(session=SESSION_MS, rebalance=7000)
    assert first.response is None
    simulation.clock.advance(1000)
    assert first.error is ErrorCode.NONE


def test_members_that_do_not_rejoin_in_time_are_out(simulation: Simulation) -> None:
    leader, other = pair(simulation)
    newcomer = simulation.join_both_steps(**TIMES)
    rejoined = simulation.join(join_request(GROUP, leader, **TIMES))
    for _ in range(REBALANCE_MS // 1000 + 1):
        simulation.heartbeat(other, 1)
        simulation.clock.advance(1000)
    assert {newcomer.response.generation_id, rejoined.response.generation_id} == {2}
    assert simulation.heartbeat(other, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_of_the_members_counts(simulation: Simulation) -> None:
    quick: dict[str, Any] = {"session": SESSION_MS, "rebalance": 1000}
    joined = [simulation.join_both_steps(**TIMES), simulation.join_both_steps(**quick)]
    members = settle(simulation, *joined)
    newcomer = simulation.join_both_steps(**quick)
    for _ in range(REBALANCE_MS // 1000 - 1):
        simulation.clock.advance(1000)
        for member in members:
            assert simulation.heartbeat(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert newcomer.response is None
    simulation.clock.advance(2000)
    assert newcomer.error is ErrorCode.NONE


def test_a_pending_member_holds_up_the_others_until_its_session_is_over(simulation: Simulation) -> None:
    leader, _ = pair(simulation)
    simulation.join(join_request(GROUP, **TIMES))  # gets an id and never returns
    simulation.leave(leader)
    follower = next(iter(simulation.group.members))
    rejoined = simulation.join(join_request(GROUP, follower, **TIMES))
    assert rejoined.response is None
    simulation.clock.advance(SESSION_MS + 10)
    assert rejoined.error is ErrorCode.NONE


def test_a_protocol_that_a_member_lists_twice_counts_once(simulation: Simulation) -> None:
    request = join_request(GROUP, **TIMES)
    request.protocols *= 2
    first = simulation.join(request, version=3)
    second = simulation.join(join_request(GROUP, **TIMES), version=3)
    settle(simulation, first, second)

    assert {answer.response.protocol_name for answer in (first, second)} == {"range"}


def test_the_protocol_with_most_votes_wins(simulation: Simulation) -> None:
    lists = [{"a": b"1", "b": b"2"}, {"b": b"3", "a": b"4"}, {"b": b"5", "a": b"6", "c": b"7"}]
    joined = [simulation.join_both_steps(protocols=protocols, **TIMES) for protocols in lists]
    simulation.clock.advance(3 * INITIAL_DELAY_MS)
    assert {answer.response.protocol_name for answer in joined} == {"b"}
    leader = next(answer.response for answer in joined if answer.response.members)
    assert sorted(member.metadata for member in leader.members) == [b"2", b"3", b"5"]


# -- sessions --------------------------------------------------------------------------------------------


def test_a_member_without_heartbeats_is_out_after_its_session_timeout(simulation: Simulation) -> None:
    leader, other = pair(simulation)
    simulation.clock.advance(SESSION_MS - 100)
    assert simulation.heartbeat(leader, 1) is ErrorCode.NONE
    simulation.clock.advance(200)
    assert simulation.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert simulation.heartbeat(other, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_is_a_sign_of_life(simulation: Simulation) -> None:
    (member,) = settle(simulation, *[simulation.join_both_steps(**TIMES)])
    for offset in range(5):
        simulation.clock.advance(SESSION_MS - 1000)
        assert simulation.commit(offset, member, 1) is ErrorCode.NONE
    assert simulation.heartbeat(member, 1) is ErrorCode.NONE


def test_heartbeats_set_no_timers_and_write_nothing(simulation: Simulation) -> None:
    leader, other = pair(simulation)
    end = simulation.log.log_end_offset
    for _ in range(100):
        simulation.clock.advance(1000)
        assert simulation.heartbeat(leader, 1) is ErrorCode.NONE
        assert simulation.heartbeat(other, 1) is ErrorCode.NONE
    assert simulation.log.log_end_offset == end


def test_a_member_that_never_syncs_is_out_after_the_rebalance_timeout(simulation: Simulation) -> None:
    joined = [simulation.join_both_steps(**TIMES) for _ in range(2)]
    simulation.clock.advance(2 * INITIAL_DELAY_MS)
    leader = next(answer.response for answer in joined if answer.response.members)
    other = next(answer.response for answer in joined if not answer.response.members)
    synced = simulation.sync(leader.member_id, 1, {leader.member_id: b"x"})
    assert synced.error is ErrorCode.NONE
    for _ in range(REBALANCE_MS // 1000 + 1):
        simulation.clock.advance(1000)
        simulation.heartbeat(leader.member_id, 1)
        simulation.heartbeat(other.member_id, 1)
    assert list(simulation.group.members) == [leader.member_id]
    assert simulation.group.state is ClassicGroupState.PREPARING_REBALANCE


# -- static members --------------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_causes_no_rebalance(simulation: Simulation) -> None:
    joined = [simulation.join(join_request(GROUP, instance=name, **TIMES)) for name in ("one", "two")]
    leader, other = settle(simulation, *joined)
    name = simulation.group.members[other].instance_id
    back = simulation.join(join_request(GROUP, instance=name, **TIMES))
    assert back.response.generation_id == 1
    assert back.response.member_id != other
    assert simulation.sync(back.response.member_id, 1).response.assignment == other.encode()
    assert simulation.heartbeat(leader, 1) is ErrorCode.NONE
    assert simulation.heartbeat(other, 1, name) is ErrorCode.FENCED_INSTANCE_ID
    simulation.check_that_replay_equals_memory()


def test_returning_static_leader_skips_the_assignment(simulation: Simulation) -> None:
    (leader,) = settle(simulation, simulation.join(join_request(GROUP, instance="one", **TIMES)))
    back = simulation.join(join_request(GROUP, instance="one", **TIMES), version=9).response
    assert (back.skip_assignment, back.leader) == (True, back.member_id)
    assert [member.member_id for member in back.members] == [back.member_id]
    again = simulation.join(join_request(GROUP, instance="one", **TIMES), version=8).response
    assert (again.skip_assignment, again.leader, again.members) == (False, back.member_id, [])
    assert leader not in simulation.group.members


def test_a_static_member_that_is_away_stays_until_its_session_is_over(simulation: Simulation) -> None:
    joined = [simulation.join(join_request(GROUP, instance=name, **TIMES)) for name in ("one", "two")]
    leader, other = settle(simulation, *joined)
    newcomer = simulation.join_both_steps(session=6000, rebalance=5000)
    rejoined = simulation.join(join_request(GROUP, leader, instance=_instance(simulation, leader), **TIMES))
    simulation.clock.advance(SESSION_MS - 1000)
    assert newcomer.response is None
    assert other in simulation.group.members
    simulation.clock.advance(2000)
    assert rejoined.error is newcomer.error is ErrorCode.NONE
    assert other not in simulation.group.members


def _instance(simulation: Simulation, member: str) -> str | None:
    return simulation.group.members[member].instance_id


def test_fenced_process_gets_an_error_for_its_pending_request(simulation: Simulation) -> None:
    old = simulation.join(join_request(GROUP, instance="one", **TIMES))
    new = simulation.join(join_request(GROUP, instance="one", **TIMES))
    assert old.error is ErrorCode.FENCED_INSTANCE_ID
    simulation.clock.advance(2 * INITIAL_DELAY_MS)
    assert new.error is ErrorCode.NONE


# -- when the log cannot be written ----------------------------------------------------------------------


def fill_the_disk(simulation: Simulation) -> None:
    simulation.files.fail_at(1, OSError(errno.ENOSPC, "no space left"), "append", forever=True)


def test_an_assignment_that_cannot_be_written_starts_a_new_rebalance(simulation: Simulation) -> None:
    joined = simulation.join_both_steps(**TIMES)
    simulation.clock.advance(INITIAL_DELAY_MS)
    member = joined.response.member_id
    fill_the_disk(simulation)
    assert simulation.sync(member, 1, {member: b"x"}).error is ErrorCode.NOT_COORDINATOR
    assert simulation.group.state is ClassicGroupState.PREPARING_REBALANCE
    simulation.files.heal()
    again = simulation.join(join_request(GROUP, member, **TIMES))
    assert again.response.generation_id == 2
    assert simulation.sync(member, 2, {member: b"x"}).response.assignment == b"x"


def test_a_static_member_whose_return_cannot_be_written_is_not_back(simulation: Simulation) -> None:
    (member,) = settle(simulation, simulation.join(join_request(GROUP, instance="one", **TIMES)))
    fill_the_disk(simulation)
    back = simulation.join(join_request(GROUP, instance="one", **TIMES))
    assert back.error is ErrorCode.NOT_COORDINATOR
    assert simulation.heartbeat(member, 1, "one") is ErrorCode.NONE
    simulation.check_that_replay_equals_memory()


def test_answers_wait_until_the_assignment_is_safe(simulation: Simulation) -> None:
    joined = simulation.join_both_steps(**TIMES)
    simulation.clock.advance(INITIAL_DELAY_MS)
    member = joined.response.member_id
    simulation.machine.holding = True
    synced = simulation.sync(member, 1, {member: b"x"})
    repeated = simulation.sync(member, 1)
    assert (synced.error, repeated.error) == (None, None)
    simulation.machine.release()
    assert synced.response.assignment == repeated.response.assignment == b"x"


# -- restarts --------------------------------------------------------------------------------------------


def test_stable_group_continues_after_the_coordinator_moved(simulation: Simulation) -> None:
    leader, other = pair(simulation)
    simulation.commit(7, leader, 1)
    simulation.restart()
    assert simulation.heartbeat(leader, 1) is ErrorCode.NONE
    assert simulation.commit(8, other, 1) is ErrorCode.NONE
    assert simulation.sync(other, 1).response.assignment == other.encode()
    simulation.clock.advance(SESSION_MS + 10)
    assert simulation.group.state is ClassicGroupState.EMPTY, "nobody was heard of after the move"


def test_members_that_wait_when_the_coordinator_moves_are_sent_to_the_new_one(
    simulation: Simulation,
) -> None:
    joining = simulation.join_both_steps(**TIMES)
    simulation.restart()
    assert joining.error is ErrorCode.NOT_COORDINATOR


# -- history ---------------------------------------------------------------------------------------------


def test_reason_of_each_generation_is_logged(simulation: Simulation) -> None:
    leader, other = pair(simulation)
    simulation.leave(other)
    again = simulation.join(join_request(GROUP, leader, **TIMES))
    settle(simulation, again)
    simulation.clock.advance(SESSION_MS + 10)
    first, second, third = reasons(simulation)
    assert f"{leader} joined from /127.0.0.1" in first
    assert second == f"{other} left"
    assert third == f"{leader} sent no heartbeat within its session timeout"


def test_reasons_of_a_rebalance_that_takes_long_do_not_pile_up() -> None:
    group = ClassicGroup("g", 0)
    for _ in range(1000):
        group.note("because " * 4000)
    assert sum(map(len, group.reasons)) <= 20 * 500


def test_topics_of_members_are_kept_once_for_all_that_have_the_same() -> None:
    topics = ConsumedTopics()
    for member in ("a", "b"):
        topics.set(member, frozenset({"orders", "bills"}))
    size = topics.size
    topics.set("c", frozenset({"orders"}))
    assert topics.size > size
    assert ("bills" in topics, "other" in topics, topics.are_known) == (True, False, True)

    topics.set("d", None)
    assert not topics.are_known
    topics.remove("d")
    topics.set("a", frozenset())
    assert "bills" in topics, "b has it"
    topics.remove("b")
    assert ("bills" in topics, "orders" in topics, topics.are_known) == (False, True, True)
    for member in ("a", "c", "nobody"):
        topics.remove(member)
    assert topics.size == 0


def subscription(*names: bytes) -> bytes:
    parts = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    return b"\0\1" + len(names).to_bytes(4, "big") + parts


def test_equal_metadata_under_each_protocol_is_decoded_once() -> None:
    names = [b"topic-%d" % number for number in range(MAX_NAMES)]
    metadata = subscription(*names)
    found = subscribed_topics([metadata + b"user data", metadata + b"other data"])
    assert found is not None
    assert len(found) == MAX_NAMES
    assert subscribed_topics([metadata, subscription(b"one more")]) is None
    assert subscribed_topics([subscription(b"a"), subscription(b"b")]) == frozenset({"a", "b"})


def test_a_large_group_from_the_log_is_understood_when_its_members_have_rejoined() -> None:
    members = [
        MemberMetadata(member_id=name, subscription=subscription(b"orders") + bytes(READ_AT_ONCE))
        for name in ("a", "b")
    ]
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", members=members)
    group = from_value("g", value, 0)
    assert (group.is_understood, group.consumes("orders"), group.consumes("other")) == (False, True, True)
    for member in group.members.values():
        group.update(member, list(member.protocols), member.timeouts)
    assert (group.is_understood, group.consumes("orders"), group.consumes("other")) == (True, True, False)
