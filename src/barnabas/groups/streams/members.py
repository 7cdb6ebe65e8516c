"""A member of a streams group: one thread of an instance of the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from barnabas.groups.modern import JOINING
from barnabas.groups.streams.tasks import NOTHING_HELD, HeldTasks, StreamsTask, StreamsTasks

UNKNOWN_TIMEOUT_MS = -1
NO_TOPOLOGY_EPOCH = -1


class StreamsMemberState(IntEnum):
    """Progress of a member towards its target, numbered as in the log."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    """It has to revoke tasks, and stays in its epoch until it has."""
    UNRELEASED_TASKS = 3
    """It is in the target's epoch, but waits for tasks that others have not released."""
    UNKNOWN = 127
    """A state that only a newer coordinator knows; this one was downgraded."""


_STATES = {int(state): state for state in StreamsMemberState}


def state_of(number: int) -> StreamsMemberState:
    return _STATES.get(number, StreamsMemberState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class StreamsEndpoint:
    """Address at which an instance answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """Immutable; a heartbeat leaves omitted fields unchanged."""

    member_id: str
    member_epoch: int = JOINING
    previous_member_epoch: int = JOINING
    state: StreamsMemberState = StreamsMemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = UNKNOWN_TIMEOUT_MS
    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    endpoint: StreamsEndpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: HeldTasks = NOTHING_HELD
    pending_revocation: HeldTasks = NOTHING_HELD
    local_state: Mapping[StreamsTask, int] = field(default_factory=dict, compare=False)
    """Task offsets of its state directory, as reported when it joined; not in the log, lost at a restart."""

    @property
    def subscribed_topic_names(self) -> frozenset[str]:
        """Members subscribe to nothing: the topology of the group says what is read."""
        return frozenset()

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.member_epoch == target_epoch

    def advance(
        self,
        epoch: int,
        state: StreamsMemberState,
        assigned: HeldTasks,
        pending_revocation: HeldTasks = NOTHING_HELD,
    ) -> StreamsMember:
        return replace(
            self,
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending_revocation,
        )


def states_on_disk(members: Mapping[str, StreamsMember]) -> dict[str, StreamsTasks]:
    """Of which tasks members have state on their disks: those that are furthest, as if they had been standbys."""
    best: dict[StreamsTask, int] = {}
    for member in members.values():
        for task, offset in member.local_state.items():
            best[task] = max(offset, best.get(task, offset))
    return {
        member_id: StreamsTasks(
            standby=frozenset(task for task, offset in found.items() if offset == best[task])
        )
        for member_id, member in members.items()
        if (found := member.local_state)
    }
