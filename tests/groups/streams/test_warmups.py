"""Warm-up tasks: a task with state moves when its new owner has restored the state."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import KafkaError
from barnabas.groups.streams.checks import check_heartbeat
from barnabas.groups.streams.sizing import StreamsStatus
from barnabas.groups.streams.tasks import StreamsTasks
from barnabas.protocol.messages.streams import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskOffset,
)
from tests.groups.simulation import GROUP
from tests.groups.streams.simulation import StreamsSimulation, assigned, owned, statuses
from tests.support.builders.streams import role, tasks

ALL = role("0-0 0-1 0-2 1-0 1-1 1-2")
LAG, END = 10_000, 50_000


def of_version_one(**overrides: str) -> StreamsSimulation:
    simulation = StreamsSimulation()
    simulation.version = 1
    simulation.overrides |= {name.replace("_", "."): value for name, value in overrides.items()}
    return simulation


def offsets(text: str, offset: int) -> list[TaskOffset]:
    return [TaskOffset(task.subtopology_id, task.partition, offset) for task in sorted(tasks(text))]


def report(text: str, lag: int) -> dict[str, Any]:
    """Fields of a heartbeat that reports offsets of warm-up tasks."""
    return {"task_offsets": offsets(text, END - lag), "task_end_offsets": offsets(text, END)}


class Application:
    """Members that follow the answers."""

    def __init__(self, simulation: StreamsSimulation, *members: str) -> None:
        self.simulation = simulation
        self.has: dict[str, StreamsTasks] = {}
        self.epochs: dict[str, int] = {}
        for member in members:
            self.join(member)

    def join(self, member: str, **fields: Any) -> None:
        self._follow(member, self.simulation.arrive(member, **fields))

    def beat(self, member: str, **fields: Any) -> StreamsTasks:
        self._follow(member, self.simulation.beat(member, self.epochs[member], self.has[member], **fields))
        return self.has[member]

    def _follow(self, member: str, answer: StreamsGroupHeartbeatResponse) -> None:
        assert not answer.error_code, answer
        self.epochs[member] = answer.member_epoch
        told = assigned(answer)
        self.has[member] = self.has.get(member, StreamsTasks()) if told is None else told

    def settle(self) -> None:
        for _ in range(6):
            for member in self.has:
                self.beat(member)

    def target(self, member: str) -> StreamsTasks:
        return self.simulation.streams_group.target(member)


def two_members(simulation: StreamsSimulation, **fields: Any) -> Application:
    """`a` had every task when `b` joined."""
    app = Application(simulation, "a")
    assert app.has["a"] == ALL
    app.join("b", **fields)
    app.settle()
    return app


def stateful(held: StreamsTasks) -> StreamsTasks:
    return StreamsTasks(
        *(
            frozenset(task for task in some if task.subtopology_id == "1")
            for some in (held.active, held.standby, held.warmup)
        )
    )


def test_a_task_with_state_stays_until_its_new_owner_has_caught_up() -> None:
    app = two_members(of_version_one())
    moving = stateful(app.target("b")).active
    assert moving
    assert stateful(app.has["b"]) == StreamsTasks(warmup=moving)
    assert app.has["b"].active == app.target("b").active - moving  # tasks without state move immediately
    assert app.has["a"].active >= moving

    names = " ".join(map(str, moving))
    app.beat("b", **report(names, LAG + 1))
    app.settle()
    assert app.has["a"].active >= moving

    app.beat("b", **report(names, LAG))
    assert app.has["b"].warmup == moving  # the old owner still has it
    app.settle()
    assert app.has["b"] == app.target("b")
    assert app.has["a"].active == ALL.active - app.has["b"].active
    app.simulation.check_that_replay_equals_memory()


def test_warm_up_tasks_become_active_without_being_revoked() -> None:
    app = two_members(of_version_one())
    task = min(app.has["b"].warmup)
    app.beat("b", **report(str(task), 0))
    for _ in range(4):
        app.beat("a")
        had = app.has["b"]
        now = app.beat("b")
        assert task in now.warmup or task in now.active, (had, now)
    assert task in app.has["b"].active


def test_the_number_of_warm_up_tasks_is_limited() -> None:
    simulation = of_version_one(streams_num_warmup_replicas="1")
    for topic in ("lines", "words", "counts"):
        simulation.remove_topic(topic)
        simulation.create(topic, 6)
    app = Application(simulation, "a", "b")
    app.settle()
    moved = set()
    for left in (3, 2, 1):
        assert len(stateful(app.target("b")).active - app.has["b"].active) == left
        (task,) = app.has["b"].warmup
        moved.add(task)
        app.beat("b", **report(str(task), 0))
        app.settle()
    assert app.has["b"] == app.target("b")
    assert moved == stateful(app.target("b")).active


def test_without_warm_up_replicas_tasks_move_immediately() -> None:
    app = two_members(of_version_one(streams_num_warmup_replicas="0"))
    assert app.has["b"] == app.target("b")


def test_a_member_that_has_the_task_as_a_standby_needs_no_warm_up() -> None:
    simulation = of_version_one(streams_num_standby_replicas="1")
    app = two_members(simulation)
    for _ in range(3):
        for task in app.has["b"].warmup:
            app.beat("b", **report(str(task), 0))
        app.settle()
    mine = stateful(app.has["a"]).active
    assert stateful(app.has["b"]).standby == mine
    # a third process takes its share of the active tasks from those that have them
    app.join("c")
    app.settle()
    held = [task for one in app.has.values() for task in one.active]
    assert sorted(held) == sorted(ALL.active)


def test_clients_before_4_4_get_tasks_immediately() -> None:
    simulation = of_version_one()
    simulation.version = 0
    app = two_members(simulation)
    assert app.has["b"] == app.target("b")


def test_tasks_move_immediately_within_a_process() -> None:
    app = two_members(of_version_one(), process_id="process-a")
    assert app.has["b"] == app.target("b")


def test_a_task_that_its_owner_still_restores_moves_immediately() -> None:
    app = Application(of_version_one(), "a")
    app.beat("a", **report("1-0 1-1 1-2", END))
    app.join("b")
    app.settle()
    assert app.has["b"] == app.target("b")


def test_another_coordinator_goes_on_where_the_first_was() -> None:
    app = two_members(of_version_one())
    warming = app.has["b"].warmup
    app.simulation.restart()
    app.settle()
    assert app.has["b"].warmup == warming
    app.beat("b", **report(" ".join(map(str, warming)), 0))
    app.settle()
    assert app.has["b"] == app.target("b")


def test_the_owner_leaves_and_its_tasks_move_without_waiting() -> None:
    app = two_members(of_version_one())
    app.simulation.depart("a")
    del app.has["a"]
    app.settle()
    assert app.has["b"] == ALL


@pytest.mark.parametrize(("version", "lag", "interval"), [(1, 77, 20_000), (0, -1, 0)])
def test_settings_are_sent_to_members(version: int, lag: int, interval: int) -> None:
    simulation = of_version_one(streams_acceptable_recovery_lag="77", streams_task_offset_interval_ms="20000")
    simulation.version = version
    answer = simulation.arrive("a")
    assert (answer.acceptable_recovery_lag, answer.task_offset_interval_ms) == (lag, interval)


def test_offsets_count_as_memory_of_the_group() -> None:
    simulation = of_version_one()
    epoch = simulation.arrive("a").member_epoch
    before = simulation.streams_group.weight().size
    simulation.beat("a", epoch, ALL, **report("1-0 1-1", 5))
    assert simulation.streams_group.weight().size > before
    simulation.depart("a")
    assert len(simulation.streams_group.offsets) == 0


# -- rack-aware tags


def test_members_without_the_required_tags_are_told() -> None:
    simulation = of_version_one(streams_rack_aware_assignment_tags="zone,rack")
    answer = simulation.arrive("a", client_tags=[KeyValue("zone", "1")])
    assert statuses(answer) == [StreamsStatus.MISSING_CLIENT_TAGS]
    assert "[rack]" in (answer.status or [])[0].status_detail
    assert assigned(answer) == ALL
    assert statuses(simulation.arrive("b", client_tags=[KeyValue("zone", "1"), KeyValue("rack", "2")])) == []
    simulation.version = 0
    assert statuses(simulation.arrive("c")) == []


def test_other_tags_lead_to_another_assignment() -> None:
    simulation = of_version_one()
    epoch = simulation.arrive("a").member_epoch
    simulation.overrides["streams.rack.aware.assignment.tags"] = "zone"
    assert simulation.beat("a", epoch, ALL).member_epoch == epoch + 1
    assert simulation.streams_group.assignment_configs["rack.aware.assignment.tags"] == "zone"


def test_warm_up_tasks_are_refused_in_version_zero_as_by_kafka() -> None:
    request = StreamsGroupHeartbeatRequest(GROUP, "a", 2, **owned(role(warmup="1-0")))
    check_heartbeat(request, 1)
    with pytest.raises(KafkaError, match="WarmupTasks are not supported yet"):
        check_heartbeat(request, 0)
