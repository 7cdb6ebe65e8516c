"""A failed append leaves the group unchanged, and every member with a session timeout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.errors import ErrorCode
from barnabas.groups.group import DeadlineType, GroupDeadline
from barnabas.groups.share.group import ShareGroup
from barnabas.groups.streams.tasks import NOTHING
from tests.groups.consumer.simulation import ConsumerSimulation, view
from tests.groups.consumer.talks import beat
from tests.groups.share.test_model import ShareSimulation
from tests.groups.simulation import GROUP
from tests.groups.streams.simulation import StreamsSimulation, seen_in

MEMBERS = ["ann", "bob", "cid"]
DISK_FULL = OSError(28, "no space left")


class ConsumerMembers:
    def __init__(self) -> None:
        self.simulation: Any = ConsumerSimulation({"orders": 2, "bills": 1})

    def join(self, member: str) -> Any:
        return self.simulation.joins(member, "orders", *(["bills"] if member == "bob" else []))

    def stay(self, member: str, epoch: int) -> Any:
        return self.simulation.beats(member, epoch, {})

    def leave(self, member: str) -> Any:
        return self.simulation.say(beat(GROUP, member, -1))


class ShareMembers:
    def __init__(self) -> None:
        self.simulation: Any = ShareSimulation()

    def join(self, member: str) -> Any:
        return self.simulation.beat(member, 0, ["orders"])

    def stay(self, member: str, epoch: int) -> Any:
        return self.simulation.beat(member, epoch, None)

    def leave(self, member: str) -> Any:
        return self.simulation.beat(member, -1, None)


class StreamsMembers:
    def __init__(self) -> None:
        self.simulation: Any = StreamsSimulation()

    def join(self, member: str) -> Any:
        return self.simulation.arrive(member)

    def stay(self, member: str, epoch: int) -> Any:
        return self.simulation.beat(member, epoch, NOTHING)

    def leave(self, member: str) -> Any:
        return self.simulation.depart(member)


def snapshot(simulation: Any) -> Any:
    """All replayed state of the shard, and its weight."""
    group = simulation.shard.groups.get(GROUP)
    share = None
    if isinstance(group, ShareGroup):
        share = (group.epoch, group.assignment_epoch, dict(group.members), dict(group.targets), group.states)
    ledger = simulation.coordinator.ledger
    weights = [each.weight() for each in simulation.shard.groups.values()]
    assert ledger.members == sum(weight.members for weight in weights)
    assert ledger.member_bytes == sum(weight.size for weight in weights)
    return view(group), seen_in(group), share, simulation.shard.offsets.snapshot()


def run(world: Any, name: str, member: str) -> Any:
    """Run one operation; returns the response, or None if the operation has none."""
    simulation = world.simulation
    group = simulation.shard.groups.get(GROUP)
    known = None if group is None else group.members.get(member)
    if name == "join":
        return world.join(member)
    if name == "stay" and known is not None:
        return world.stay(member, known.member_epoch)
    if name == "leave" and known is not None:
        return world.leave(member)
    if name == "expire":
        simulation.clock.advance(30_000)
        simulation.machine.run_soon()
    if name == "restart":
        simulation.restart()
    return None


OPERATIONS = st.tuples(
    st.sampled_from(["join", "join", "stay", "stay", "leave", "expire", "restart"]),
    st.sampled_from(MEMBERS),
    st.booleans(),
)


@pytest.mark.parametrize("make_world", [ConsumerMembers, ShareMembers, StreamsMembers])
@given(operations=st.lists(OPERATIONS, max_size=12))
@settings(max_examples=40, deadline=None)
def test_a_failed_append_changes_nothing(
    make_world: Callable[[], Any], operations: list[tuple[str, str, bool]]
) -> None:
    world = make_world()
    simulation = world.simulation
    for name, member, fails in operations:
        before, end = snapshot(simulation), simulation.log.log_end_offset
        if fails:
            simulation.files.fail_at(1, DISK_FULL, "append", forever=True)
        response = run(world, name, member)
        simulation.files.heal()
        if fails and name != "restart":
            assert simulation.log.log_end_offset == end
            assert snapshot(simulation) == before
            assert response is None or response.error_code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)
        group = simulation.shard.groups.get(GROUP)
        for each in () if group is None else group.members:
            deadline = GroupDeadline(DeadlineType.HEARTBEAT, GROUP, each)
            assert deadline in simulation.shard.context.deadlines
