"""A streams group under random actions of clients, topics and coordinators, against a model of its clients.

Whatever happens: no active task is processed twice, no process has a task twice, epochs never go back, and what is in
memory is what a replay of the log gives. When it stops happening, the group settles: every task is assigned.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from barnabas.common.errors import ErrorCode
from barnabas.groups.streams.group import StreamsGroup
from barnabas.groups.streams.tasks import NOTHING, StreamsTask, StreamsTasks
from barnabas.protocol.messages.streams import StreamsGroupHeartbeatResponse, TaskOffset
from tests.groups.modern_model import ModelClient, ModernGroupModel, steps
from tests.groups.streams.simulation import COUNTING_TOPICS, StreamsSimulation, assigned

END = 50_000  # of every changelog


class Thread(ModelClient):
    """A thread of an application, in one of its processes."""

    EXPECTED_ERRORS = frozenset(
        {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
    )

    def __init__(self, member_id: str, process_id: str, version: int = 0) -> None:
        super().__init__(member_id)
        self.process_id = process_id
        self.version = version
        self.lag = 0

    def lose_everything(self) -> None:
        self.epoch, self.has, self.told = 0, NOTHING, NOTHING

    def learn(self, response: StreamsGroupHeartbeatResponse) -> None:
        told = assigned(response)
        if told is not None:
            self.told = told
            keeps_copies = self.has.standby <= told.standby and self.has.warmup <= told.warmup | told.active
            if self.has.active <= told.active and keeps_copies:
                self.has = told

    def revoke(self) -> None:
        self.has = self.told

    def reports(self) -> dict[str, list[TaskOffset]]:
        copies = sorted(self.has.standby | self.has.warmup)
        return {
            "task_offsets": [TaskOffset(*task, END - self.lag) for task in copies],
            "task_end_offsets": [TaskOffset(*task, END) for task in copies],
        }


class StreamsGroupModel(ModernGroupModel[Thread]):
    GROUP_TYPE = StreamsGroup
    ROUNDS_TO_SETTLE = 24
    simulation: StreamsSimulation

    def __init__(self) -> None:
        super().__init__(StreamsSimulation())

    # -- clients ------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(process_id=st.sampled_from("pqr"), version=st.integers(0, 1))
    def a_thread_starts(self, process_id: str, version: int) -> None:
        thread = Thread(f"m{self.new_number()}", process_id, version)
        self.clients[thread.member_id] = thread
        self.beat(thread)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), lag=st.sampled_from((0, 20_000)))
    def a_thread_falls_behind_or_catches_up(self, data: st.DataObject, lag: int) -> None:
        self.any_client(data).lag = lag

    def beat(self, client: Thread, *, deliver: bool = True) -> None:
        self.simulation.version = client.version
        if client.epoch == 0:
            client.lose_everything()
            response = self.simulation.arrive(client.member_id, process_id=client.process_id)
        else:
            fields = client.reports() if client.version else {}
            response = self.simulation.beat(client.member_id, client.epoch, client.has, **fields)
        if deliver:
            client.hear(response)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_thread_leaves(self, data: st.DataObject) -> None:
        thread = self.clients.pop(self.any_client(data).member_id)
        self.simulation.depart(thread.member_id)

    # -- the world ----------------------------------------------------------------------------------

    @rule(replicas=st.integers(0, 2))
    def the_number_of_standbys_is_set(self, replicas: int) -> None:
        self.simulation.overrides["streams.num.standby.replicas"] = str(replicas)

    @rule(interval_ms=st.sampled_from((0, 1000)), delay_ms=st.sampled_from((0, 3000)))
    def delays_are_set(self, interval_ms: int, delay_ms: int) -> None:
        self.simulation.overrides["streams.assignment.interval.ms"] = str(interval_ms)
        self.simulation.overrides["streams.initial.rebalance.delay.ms"] = str(delay_ms)

    @rule(partitions=st.integers(1, 5), name=st.sampled_from(tuple(COUNTING_TOPICS)))
    def a_topic_is_made_anew(self, partitions: int, name: str) -> None:
        if name in self.simulation.image.topics:
            self.simulation.remove_topic(name)
        self.simulation.create(name, partitions)

    # -- what must hold -----------------------------------------------------------------------------

    @invariant()
    def no_active_task_is_processed_twice(self) -> None:
        active = [task for thread in self.members for task in thread.has.active]
        assert len(active) == len(set(active))

    @invariant()
    def no_process_has_a_task_twice(self) -> None:
        here = [
            (thread.process_id, task)
            for thread in self.members
            for task in (*thread.has.active, *thread.has.standby, *thread.has.warmup)
        ]
        assert len(here) == len(set(here))

    @rule(warmups=st.integers(0, 2))
    def the_number_of_warmups_is_set(self, warmups: int) -> None:
        self.simulation.overrides["streams.num.warmup.replicas"] = str(warmups)

    def calm_down(self) -> None:
        """Restore matching topics, and let all copies catch up."""
        self.the_number_of_warmups_is_set(1)
        for thread in self.clients.values():
            thread.lag = 0
        for name in COUNTING_TOPICS:
            self.a_topic_is_made_anew(4, name)

    def check_that_all_is_assigned(self, group: StreamsGroup) -> None:
        assert all(thread.has == group.target(name) for name, thread in self.clients.items())
        active = sorted(task for thread in self.clients.values() for task in thread.has.active)
        assert active == [StreamsTask(one, index) for one in "01" for index in range(4)]


StreamsGroupModel.TestCase.settings = steps(50)
TestStreamsGroupModel = StreamsGroupModel.TestCase


def test_thread_keeps_its_tasks_until_it_has_revoked() -> None:
    """Test of the model: a client keeps tasks until it revokes them."""
    thread = Thread("a", "p")
    thread.has = thread.told = StreamsTasks(frozenset({StreamsTask("0", 0)}))
    thread.hear(
        StreamsGroupHeartbeatResponse(member_epoch=3, active_tasks=[], standby_tasks=[], warmup_tasks=[])
    )
    assert thread.has.active
    thread.revoke()
    assert not thread.has
