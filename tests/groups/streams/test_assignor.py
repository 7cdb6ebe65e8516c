"""The streams assignor: balanced, sticky, and never two copies of a task in one process."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.groups.streams.assignor import StreamsMemberSpec, SubtopologySpec, assign
from barnabas.groups.streams.tasks import StreamsTask, StreamsTasks
from tests.support.builders.streams import role, tasks

STATELESS, STATEFUL = SubtopologySpec(4, False), SubtopologySpec(4, True)


def members(**processes: str) -> dict[str, StreamsMemberSpec]:
    return {member_id: StreamsMemberSpec(process_id) for member_id, process_id in processes.items()}


def again(
    before: dict[str, StreamsTasks],
    processes: dict[str, str],
    subtopologies: dict[str, SubtopologySpec],
    standbys: int = 0,
) -> dict[str, StreamsTasks]:
    specs = {
        member: StreamsMemberSpec(process, before.get(member, StreamsTasks()))
        for member, process in processes.items()
    }
    return assign(specs, subtopologies, standbys)


def test_no_members_get_no_partitions() -> None:
    assert assign({}, {"0": STATELESS}, 1) == {}


def test_only_member_gets_every_task() -> None:
    assert assign(members(a="p"), {"0": STATEFUL, "1": STATELESS}, 0) == {
        "a": role("0-0 0-1 0-2 0-3 1-0 1-1 1-2 1-3")
    }


def test_a_new_group_gets_shares_of_each_subtopology() -> None:
    shares = assign(members(a="p", b="q"), {"0": STATELESS, "1": STATELESS}, 0)
    assert shares == {"a": role("0-0 0-2 1-0 1-2"), "b": role("0-1 0-3 1-1 1-3")}


def test_a_member_that_joins_takes_only_its_share() -> None:
    before = assign(members(a="p"), {"0": STATELESS}, 0)
    after = again(before, {"a": "p", "b": "q"}, {"0": STATELESS})
    assert after["a"].active < before["a"].active
    assert len(after["a"].active) == len(after["b"].active) == 2


def test_partitions_of_a_leaving_member_are_distributed_and_others_stay() -> None:
    before = assign(members(a="p", b="q", c="r"), {"0": SubtopologySpec(9, False)}, 0)
    after = again(
        {name: before[name] for name in "ab"}, {"a": "p", "b": "q"}, {"0": SubtopologySpec(9, False)}
    )
    assert after["a"].active > before["a"].active
    assert after["b"].active > before["b"].active
    assert {len(one.active) for one in after.values()} == {4, 5}


def test_a_standby_takes_over_from_a_leaver() -> None:
    before = {"b": role("0-2 0-3", standby="0-0 0-1")}
    after = again(before, {"b": "q"}, {"0": STATEFUL}, standbys=1)
    assert after == {"b": role("0-0 0-1 0-2 0-3")}


def test_a_standby_is_preferred_to_the_least_loaded() -> None:
    before = {"a": role("0-0"), "b": role("0-1", standby="0-2"), "c": role()}
    processes = {"a": "p", "b": "q", "c": "r"}
    after = again(before, processes, {"0": SubtopologySpec(6, True)}, standbys=0)
    assert after["b"].active >= tasks("0-1 0-2")


def test_standbys_are_for_stateful_tasks_and_on_other_processes() -> None:
    shares = assign(members(a="p", b="q"), {"0": STATELESS, "1": STATEFUL}, 1)
    assert shares["a"].standby == {task for task in shares["b"].active if task.subtopology_id == "1"}
    assert shares["b"].standby == {task for task in shares["a"].active if task.subtopology_id == "1"}


def test_a_process_alone_has_no_standbys() -> None:
    shares = assign(members(a="p", b="p"), {"0": STATEFUL}, 2)
    assert not any(share.standby for share in shares.values())


def test_standbys_stay_where_they_are() -> None:
    processes = {"a": "p", "b": "q", "c": "r"}
    before = assign(members(**processes), {"0": SubtopologySpec(6, True)}, 1)
    assert again(before, processes, {"0": SubtopologySpec(6, True)}, standbys=1) == before


def test_threads_of_a_small_process_do_not_get_more_than_others() -> None:
    shares = assign(members(a1="p", a2="p", a3="p", b="q"), {"0": SubtopologySpec(8, False)}, 0)
    assert {len(share.active) for share in shares.values()} == {2}


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, StreamsMemberSpec], dict[str, SubtopologySpec], int]:
    subtopologies = {
        str(number): SubtopologySpec(draw(st.integers(1, 7)), draw(st.booleans()))
        for number in range(draw(st.integers(1, 3)))
    }
    standbys = draw(st.integers(0, 2))
    first = draw(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("pqr"), min_size=1))
    before = assign(
        {name: StreamsMemberSpec(process) for name, process in first.items()}, subtopologies, standbys
    )
    now = draw(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("pqr"), min_size=1))
    return (
        {name: StreamsMemberSpec(process, before.get(name, StreamsTasks())) for name, process in now.items()},
        subtopologies,
        draw(st.integers(0, 2)),
    )


@given(situations())
def test_every_assignment_is_complete_and_fair(
    situation: tuple[dict[str, StreamsMemberSpec], dict[str, SubtopologySpec], int],
) -> None:
    specs, subtopologies, standbys = situation
    shares = assign(specs, subtopologies, standbys)
    active = [task for share in shares.values() for task in share.active]
    assert len(active) == len(set(active)) == sum(one.tasks for one in subtopologies.values())
    for process in {spec.process_id for spec in specs.values()}:
        here = [
            task
            for name, share in shares.items()
            if specs[name].process_id == process
            for task in (*share.active, *share.standby)
        ]
        assert len(here) == len(set(here)), "a process has a task once"
    processes = len({spec.process_id for spec in specs.values()})
    for subtopology_id, one in subtopologies.items():
        copies = [t for share in shares.values() for t in share.standby if t.subtopology_id == subtopology_id]
        expected = one.tasks * min(standbys, processes - 1) if one.is_stateful else 0
        assert len(copies) == expected


@given(situations())
def test_nothing_moves_when_nothing_changes(
    situation: tuple[dict[str, StreamsMemberSpec], dict[str, SubtopologySpec], int],
) -> None:
    """With a thread for each process. Else the shares of threads and the loads of processes may disagree once."""
    specs, subtopologies, _ = situation
    before = assign(
        {name: StreamsMemberSpec(name, spec.previous) for name, spec in specs.items()}, subtopologies, 0
    )
    settled = {name: StreamsMemberSpec(name, before[name]) for name in specs}
    assert assign(settled, subtopologies, 0) == before


ZONES = {"a": "1", "b": "1", "c": "2", "d": "2"}


def in_zones(before: dict[str, StreamsTasks]) -> dict[str, StreamsTasks]:
    specs = {
        member: StreamsMemberSpec(f"process-{member}", before.get(member, StreamsTasks()), (zone,))
        for member, zone in ZONES.items()
    }
    return assign(specs, {"0": SubtopologySpec(12, True)}, 1)


def zones_of(shares: dict[str, StreamsTasks], *, standby: bool) -> dict[StreamsTask, str]:
    return {
        task: ZONES[member]
        for member, share in shares.items()
        for task in (share.standby if standby else share.active)
    }


def test_standbys_are_in_another_zone_and_stay_there() -> None:
    first = in_zones({})
    active, standby = zones_of(first, standby=False), zones_of(first, standby=True)
    assert len(active) == len(standby) == 12
    assert all(standby[task] != zone for task, zone in active.items())
    assert {len(share) for share in first.values()} == {6}
    assert in_zones(first) == first
    # Standbys in the zone of their active tasks move to the other one.
    sticky = assign(members(**{name: name for name in ZONES}), {"0": SubtopologySpec(12, True)}, 1)
    moved = in_zones(sticky)
    assert all(zones_of(moved, standby=True)[task] != z for task, z in zones_of(moved, standby=False).items())


def test_standbys_without_another_zone_are_assigned_nevertheless() -> None:
    specs = {name: StreamsMemberSpec(name, tags=("1", None)) for name in "abc"}
    shares = assign(specs, {"0": STATEFUL}, 2)
    assert sum(len(share.standby) for share in shares.values()) == 8
