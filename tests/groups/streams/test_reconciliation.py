"""Reconciliation of a member from its current to its target assignment."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.streams.group import TaskOwners
from barnabas.groups.streams.members import StreamsMember, StreamsMemberState, state_of
from barnabas.groups.streams.reconciliation import StreamsTarget, reconcile
from barnabas.groups.streams.tasks import HeldTasks, StreamsTasks, by_subtopology, tasks_of
from barnabas.protocol.messages.streams import TaskIds
from tests.support.builders.streams import role, tasks


def held(active: str = "", standby: str = "", epoch: int = 3) -> HeldTasks:
    return HeldTasks(dict.fromkeys(tasks(active), epoch), tasks(standby))


def member(name: str, assigned: HeldTasks, *, process: str = "", **fields: object) -> StreamsMember:
    known = {"member_epoch": 3, "previous_member_epoch": 2, "process_id": process or name} | fields
    return StreamsMember(name, assigned=assigned, **known)  # type: ignore[arg-type]


def owners(*members: StreamsMember) -> TaskOwners:
    index = TaskOwners()
    for one in members:
        index.replace(None, one)
    return index


def owned_by(one: StreamsMember) -> StreamsTasks:
    return StreamsTasks(frozenset(one.assigned.active), one.assigned.standby)


def test_a_member_in_the_epoch_of_its_target_stays_as_it_is() -> None:
    settled = member("a", held("0-0"))
    assert reconcile(settled, StreamsTarget(3, role("0-0")), owners(settled), None) is settled


def test_free_tasks_are_taken_at_once_and_keep_the_epoch_they_came_with() -> None:
    one = member("a", held("0-0"))
    moved = reconcile(one, StreamsTarget(5, role("0-0 0-1", standby="1-0")), owners(one), owned_by(one))
    assert (moved.member_epoch, moved.previous_member_epoch, moved.state) == (5, 3, StreamsMemberState.STABLE)
    assert moved.assigned == HeldTasks({**held("0-0").active, **held("0-1", epoch=5).active}, tasks("1-0"))


def test_tasks_are_given_up_before_anything_is_gained() -> None:
    one = member("a", held("0-0 0-1", standby="1-0"))
    result = reconcile(one, StreamsTarget(5, role("0-0 0-2")), owners(one), owned_by(one))
    assert (result.member_epoch, result.state) == (3, StreamsMemberState.UNREVOKED_TASKS)
    assert result.assigned == held("0-0")
    assert result.pending_revocation == held("0-1", standby="1-0")


@pytest.mark.parametrize("says", [None, role("0-0 0-1"), role("0-0", standby="1-0")])
def test_unrevoked_member_is_waited_for(says: StreamsTasks | None) -> None:
    one = member(
        "a",
        held("0-0"),
        state=StreamsMemberState.UNREVOKED_TASKS,
        pending_revocation=held("0-1", standby="1-0"),
    )
    assert reconcile(one, StreamsTarget(5, role("0-0")), owners(one), says) is one


def test_member_gets_the_rest_after_it_has_revoked() -> None:
    one = member("a", held("0-0"), state=StreamsMemberState.UNREVOKED_TASKS, pending_revocation=held("0-1"))
    moved = reconcile(one, StreamsTarget(5, role("0-0 0-2")), owners(one), role("0-0"))
    assert (moved.member_epoch, moved.state) == (5, StreamsMemberState.STABLE)
    assert moved.assigned.active.keys() == tasks("0-0 0-2")
    assert not moved.pending_revocation


def test_a_newer_target_may_ask_for_more_on_the_way() -> None:
    one = member("a", held("0-0"), state=StreamsMemberState.UNREVOKED_TASKS, pending_revocation=held("0-1"))
    result = reconcile(one, StreamsTarget(6, role("")), owners(one), role("0-0"))
    assert (result.member_epoch, result.state) == (4, StreamsMemberState.UNREVOKED_TASKS)
    assert result.pending_revocation == held("0-0")


def test_an_active_task_is_not_given_while_anybody_has_it() -> None:
    giver = member("a", held("0-0"), state=StreamsMemberState.UNREVOKED_TASKS, pending_revocation=held("0-1"))
    taker = member("b", held())
    waits = reconcile(taker, StreamsTarget(5, role("0-1 0-2")), owners(giver, taker), role())
    assert (waits.member_epoch, waits.state) == (5, StreamsMemberState.UNRELEASED_TASKS)
    assert waits.assigned.active.keys() == tasks("0-2")
    index = owners(giver, waits)
    assert (
        reconcile(waits, StreamsTarget(5, role("0-1 0-2")), index, role("0-2")).state
        is StreamsMemberState.UNRELEASED_TASKS
    )
    index.replace(giver, member("a", held("0-0")))
    done = reconcile(waits, StreamsTarget(5, role("0-1 0-2")), index, role("0-2"))
    assert done.state is StreamsMemberState.STABLE
    assert done.assigned.active.keys() == tasks("0-1 0-2")


def test_a_process_does_not_get_a_second_copy_of_a_task() -> None:
    first = member("a1", held("0-0", standby="0-1"), process="p")
    second = member("a2", held(), process="p")
    index = owners(first, second)
    for target in (role("0-1"), role(standby="0-0"), role(standby="0-1")):
        waits = reconcile(second, StreamsTarget(5, target), index, role())
        assert (waits.state, bool(waits.assigned)) == (StreamsMemberState.UNRELEASED_TASKS, False)
    elsewhere = member("b", held(), process="q")
    assert reconcile(
        elsewhere, StreamsTarget(5, role(standby="0-0")), index, role()
    ).assigned.standby == tasks("0-0")


def test_member_that_reports_no_partitions_need_not_revoke_them() -> None:
    back = member("a", held("0-0 0-1"))
    moved = reconcile(back, StreamsTarget(5, role("0-0")), owners(back), role())
    assert (moved.member_epoch, moved.state) == (5, StreamsMemberState.STABLE)
    assert not moved.pending_revocation


def test_a_member_in_a_state_of_a_newer_version_starts_over() -> None:
    odd = member("a", held(), state=state_of(9))
    assert odd.state is StreamsMemberState.UNKNOWN
    for says in (None, role("0-0")):
        with pytest.raises(KafkaError) as failure:
            reconcile(odd, StreamsTarget(5, role("0-0")), owners(odd), says)
        assert failure.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert (
        reconcile(odd, StreamsTarget(5, role("0-0")), owners(odd), role()).state is StreamsMemberState.STABLE
    )


def test_leaving_member_releases_its_partitions() -> None:
    removed = member("a", held("0-0", standby="1-0"), pending_revocation=held("0-1"))
    index = owners(removed)
    assert index.active(*tasks("0-1")) == "a"
    index.replace(removed, None)
    assert index.active(*tasks("0-0")) is None
    assert index.active(*tasks("0-1")) is None
    assert not index.has_copy("a", *tasks("1-0"))


def test_messages_list_tasks_by_subtopology() -> None:
    listed = by_subtopology(tasks("1-10 1-2 0-3"))
    assert listed == [("0", [3]), ("1", [2, 10])]
    assert tasks_of(TaskIds(*one) for one in listed) == tasks("0-3 1-2 1-10")
