"""Shared parts of the models of consumer and streams groups.

Whatever happens: epochs never go back, and what is in memory is what a replay of the log gives. Subclasses add what
their clients do, and what must hold of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.common.errors import ErrorCode
from barnabas.groups.modern import ModernGroupState
from tests.groups.consumer.simulation import SESSION_MS, ConsumerSimulation
from tests.groups.simulation import GROUP


class ModelClient(ABC):
    """State of a client. It uses its partitions; revoked ones are kept until `revokes`."""

    EXPECTED_ERRORS: ClassVar[frozenset[ErrorCode]]

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.lose_everything()

    def hear(self, response: Any) -> None:
        if response.error_code == ErrorCode.NOT_COORDINATOR:
            return  # nothing was written: it retries
        if response.error_code:
            assert response.error_code in self.EXPECTED_ERRORS, response
            self.lose_everything()
            return
        self.epoch = response.member_epoch
        self.learn(response)

    @abstractmethod
    def learn(self, response: Any) -> None:
        """Take the assignment of a response if nothing must be revoked first."""

    @abstractmethod
    def revoke(self) -> None:
        """Revoke partitions."""

    @abstractmethod
    def lose_everything(self) -> None:
        """Reset of a fenced client, or one silent for too long."""


ClientT = TypeVar("ClientT", bound=ModelClient)


class ModernGroupModel(RuleBasedStateMachine, Generic[ClientT]):
    GROUP_TYPE: ClassVar[type[Any]]
    ROUNDS_TO_SETTLE: ClassVar[int] = 12

    def __init__(self, simulation: ConsumerSimulation) -> None:
        super().__init__()
        self.simulation = simulation
        self.clients: dict[str, ClientT] = {}
        self.numbers = 0
        self.seen_epochs = (0, 0)

    def beat(self, client: ClientT, *, deliver: bool = True) -> None:
        """Send a heartbeat and deliver its response unless it is lost."""
        raise NotImplementedError

    def any_client(self, data: st.DataObject) -> ClientT:
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    def new_number(self) -> int:
        self.numbers += 1
        return self.numbers

    # -- clients ------------------------------------------------------------------------------------

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), deliver=st.integers(0, 4))
    def a_client_sends_a_heartbeat(self, data: st.DataObject, deliver: int) -> None:
        """One answer in five is lost."""
        self.beat(self.any_client(data), deliver=deliver > 0)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_gives_up_what_it_was_asked_for(self, data: st.DataObject) -> None:
        client = self.any_client(data)
        client.revoke()
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_dies(self, data: st.DataObject) -> None:
        del self.clients[self.any_client(data).member_id]

    # -- the world ----------------------------------------------------------------------------------

    @precondition(lambda self: len(self.simulation.image.topics) > 1)
    @rule(data=st.data())
    def a_topic_is_deleted(self, data: st.DataObject) -> None:
        self.simulation.remove_topic(data.draw(st.sampled_from(sorted(self.simulation.image.topics))))

    @rule(seconds=st.integers(1, 50))
    def time_passes(self, seconds: int) -> None:
        self.simulation.clock.advance(seconds * 1000)
        if seconds * 1000 > SESSION_MS:
            for client in self.clients.values():  # it notices that it was silent too long
                client.lose_everything()

    @rule()
    def another_broker_coordinates(self) -> None:
        self.simulation.restart()

    @rule()
    def the_disk_is_full_for_a_moment(self) -> None:
        self.simulation.files.fail_at(1, OSError(28, "no space left"), "append")

    # -- what must hold -----------------------------------------------------------------------------

    @property
    def group(self) -> Any:
        group = self.simulation.shard.groups.get(GROUP)
        return group if isinstance(group, self.GROUP_TYPE) else None

    @property
    def members(self) -> list[ClientT]:
        """Others are fenced: they will learn it, and cannot commit."""
        known = {} if self.group is None else self.group.members
        return [client for client in self.clients.values() if client.member_id in known]

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.group
        if group is not None:
            seen = (group.epoch, group.assignment_epoch)
            assert seen[0] >= self.seen_epochs[0]
            assert seen[1] >= self.seen_epochs[1]
            assert group.assignment_epoch <= group.epoch
            assert all(member.member_epoch <= group.epoch for member in group.members.values())
            self.seen_epochs = seen

    @invariant()
    def memory_is_what_the_log_says(self) -> None:
        self.simulation.check_that_replay_equals_memory()

    # -- the end ------------------------------------------------------------------------------------

    def teardown(self) -> None:
        self.simulation.files.heal()
        self.calm_down()
        self._settle()
        group = self.group
        if not self.clients or group is None:
            return
        assert group.state is ModernGroupState.STABLE
        assert set(group.members) == set(self.clients)
        self.check_that_all_is_assigned(group)

    def calm_down(self) -> None:
        """Restore everything that the group needs."""

    def _settle(self) -> None:
        """Detect dead members while others continue; then find new topics."""
        for _ in range(self.ROUNDS_TO_SETTLE):
            self.simulation.clock.advance(6000)
            for client in self.clients.values():
                client.revoke()
                self.beat(client)

    def check_that_all_is_assigned(self, group: Any) -> None:
        raise NotImplementedError


def steps(examples: int) -> settings:
    """How much of it is tried."""
    return settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
