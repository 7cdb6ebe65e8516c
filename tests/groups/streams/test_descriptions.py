"""Additions of version 1 of the streams protocol: topology descriptions (KIP-1331) and state on members' disks."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.streams.checks import check_heartbeat
from barnabas.groups.streams.describe import described
from barnabas.groups.streams.description import PAUSE_MS, TopologyAvailability, check_update
from barnabas.protocol.messages.streams import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
    TaskOffset,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tests.groups.simulation import GROUP
from tests.groups.streams.simulation import StreamsSimulation, assigned, owned
from tests.support.builders.streams import role, tasks, word_count

LINES = TopologyDescriptionNode("KSTREAM-SOURCE-0", 1, ["lines"], None, [], ["KSTREAM-SINK-1"])
WORDS = TopologyDescriptionNode("KSTREAM-SINK-1", 3, [], "words")
DESCRIPTION = TopologyDescription([TopologyDescriptionSubtopology("0", [LINES, WORDS])])


@pytest.fixture
def simulation() -> StreamsSimulation:
    return of_version_one()


def of_version_one(**settings: Any) -> StreamsSimulation:
    simulation = StreamsSimulation(**settings)
    simulation.version = 1
    return simulation


def describe(
    simulation: StreamsSimulation,
    member: str = "a",
    description: TopologyDescription = DESCRIPTION,
    *,
    group: str = GROUP,
    epoch: int = 0,
) -> tuple[ErrorCode, str]:
    request = StreamsGroupTopologyDescriptionUpdateRequest(group, member, epoch, description)
    outcomes: list[KafkaError | None] = []
    simulation.coordinator.write(
        group, lambda shard: shard.streams.descriptions.update(request), outcomes.append
    )
    (error,) = outcomes
    return (ErrorCode.NONE, "") if error is None else (error.code, error.message)


def shown(simulation: StreamsSimulation) -> tuple[int, TopologyDescription | None]:
    answer = described(simulation.streams_group, with_description=True)
    return answer.topology_description_status, answer.topology_description


# -- descriptions


def test_one_member_at_a_time_is_asked_for_the_description(simulation: StreamsSimulation) -> None:
    first = simulation.arrive("a").member_epoch
    assert simulation.arrive("b").topology_description_required
    assert not simulation.beat("a", first).topology_description_required
    simulation.clock.advance(PAUSE_MS)
    assert simulation.beat("a", first).topology_description_required


def test_members_with_version_zero_are_not_asked() -> None:
    simulation = StreamsSimulation()
    epoch = simulation.arrive("a").member_epoch
    answer = simulation.beat("a", epoch)
    assert not answer.topology_description_required
    assert answer.task_offset_interval_ms == 0


def test_member_with_an_older_topology_is_not_asked(simulation: StreamsSimulation) -> None:
    simulation.arrive("a", topology=word_count(epoch=1))
    assert not simulation.arrive("b", topology=word_count(epoch=0)).topology_description_required


def test_a_description_is_shown_and_outlives_a_restart(simulation: StreamsSimulation) -> None:
    epoch = simulation.arrive("a").member_epoch
    assert shown(simulation) == (TopologyAvailability.NOT_STORED, None)
    assert describe(simulation) == (ErrorCode.NONE, "")
    assert shown(simulation) == (TopologyAvailability.AVAILABLE, DESCRIPTION)
    simulation.check_that_replay_equals_memory()
    simulation.restart()
    assert shown(simulation) == (TopologyAvailability.AVAILABLE, DESCRIPTION)
    simulation.clock.advance(PAUSE_MS)
    assert not simulation.beat("a", epoch).topology_description_required
    plain = described(simulation.streams_group)
    assert (plain.topology_description_status, plain.topology_description) == (
        TopologyAvailability.NOT_REQUESTED,
        None,
    )
    assert plain.assignor_name == "sticky"


def test_resent_record_is_written_once(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    describe(simulation)
    end = simulation.log.log_end_offset
    assert describe(simulation) == (ErrorCode.NONE, "")
    assert simulation.log.log_end_offset == end


def test_description_is_deleted_with_its_group(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    describe(simulation)
    simulation.depart("a")
    assert shown(simulation) == (TopologyAvailability.AVAILABLE, DESCRIPTION)
    assert simulation.delete() is ErrorCode.NONE
    simulation.arrive("a")
    assert shown(simulation) == (TopologyAvailability.NOT_STORED, None)
    simulation.check_that_replay_equals_memory()


def test_only_members_describe_the_topology_that_the_group_has(simulation: StreamsSimulation) -> None:
    assert describe(simulation)[0] is ErrorCode.UNKNOWN_MEMBER_ID  # the group is deleted: rejoin
    simulation.arrive("a")
    assert describe(simulation, "stranger")[0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert describe(simulation, epoch=1)[0] is ErrorCode.INVALID_REQUEST
    simulation.join_both_steps("classic")
    assert describe(simulation, group="classic")[0] is ErrorCode.GROUP_ID_NOT_FOUND
    assert shown(simulation) == (TopologyAvailability.NOT_STORED, None)


def test_oversized_message_is_rejected_without_a_retry() -> None:
    simulation = of_version_one(streams_description_max_bytes=50)
    epoch = simulation.arrive("a").member_epoch
    code, why = describe(simulation)
    assert code is ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    assert "more than 50 (barnabas.streams.topology.description.max.bytes)" in why
    assert not simulation.beat("a", epoch).topology_description_required


def test_members_are_not_asked_where_descriptions_are_not_kept() -> None:
    simulation = of_version_one(streams_description_max_bytes=0)
    epoch = simulation.arrive("a").member_epoch
    assert not simulation.beat("a", epoch).topology_description_required
    request = StreamsGroupTopologyDescriptionUpdateRequest(GROUP, "a", 0, DESCRIPTION)
    with pytest.raises(KafkaError, match="keeps no descriptions") as refused:
        check_update(request, 0)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("group", "member"), [("", "a"), ("g", " ")])
def test_an_update_names_group_and_member(group: str, member: str) -> None:
    request = StreamsGroupTopologyDescriptionUpdateRequest(group, member, 0, DESCRIPTION)
    with pytest.raises(KafkaError, match="can't be empty") as refused:
        check_update(request, 1000)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_descriptions_count_as_member_metadata(simulation: StreamsSimulation) -> None:
    simulation.arrive("a")
    before = simulation.streams_group.weight().size
    describe(simulation)
    stored = simulation.streams_group.description
    assert stored is not None
    assert simulation.streams_group.weight().size == before + len(stored.data)


# -- state on disks


def offsets(text: str, offset: int) -> list[TaskOffset]:
    return [TaskOffset(task.subtopology_id, task.partition, offset) for task in sorted(tasks(text))]


def test_tasks_of_a_new_group_are_assigned_to_members_with_their_state() -> None:
    simulation = of_version_one()
    simulation.overrides["streams.initial.rebalance.delay.ms"] = "3000"
    mine, others = "0-2 1-0 1-2", "0-0 0-1 1-1"
    first = simulation.arrive("a", task_offsets=offsets(mine, 70)).member_epoch
    second = simulation.arrive("b", task_offsets=offsets(others, 70) + offsets("1-0", 20)).member_epoch
    simulation.clock.advance(3000)
    simulation.machine.run_soon()
    assert assigned(simulation.beat("a", first)) == role(mine)
    assert assigned(simulation.beat("b", second)) == role(others)
    simulation.check_that_replay_equals_memory()


def test_unusable_state_changes_nothing(simulation: StreamsSimulation) -> None:
    answer = simulation.arrive("a", task_offsets=offsets("7-9 0-99", 5), task_end_offsets=[])
    assert assigned(answer) == role("0-0 0-1 0-2 1-0 1-1 1-2")


def test_state_is_refused_in_version_zero_as_by_kafka() -> None:
    request = StreamsGroupHeartbeatRequest(
        GROUP, "a", rebalance_timeout_ms=1, topology=word_count(), task_offsets=[], **owned(role())
    )
    check_heartbeat(request, 1)
    with pytest.raises(KafkaError, match="TaskOffsets are not supported yet"):
        check_heartbeat(request, 0)
