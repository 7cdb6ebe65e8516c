"""A streams group under everything that clients, topics and coordinators do, against a model of its clients.

Whatever happens: no active task is processed twice, no process has a task twice, epochs never go back, and what is in
memory is what a replay of the log gives. When it stops happening, the group settles: every task is assigned.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.errors import ErrorCode
from barnabas.groups.modern import GroupState
from barnabas.groups.streams.group import StreamsGroup
from barnabas.groups.streams.tasks import NOTHING, Task, Tasks
from barnabas.protocol.messages.streams import StreamsGroupHeartbeatResponse
from tests.groups.simulation import GROUP
from tests.groups.streams.simulation import SESSION_MS, StreamsSimulation, assigned


class Thread:
    """What a client knows. What it shall give up it has until it `revokes`."""

    def __init__(self, member_id: str, process_id: str) -> None:
        self.member_id = member_id
        self.process_id = process_id
        self.lose_everything()

    def lose_everything(self) -> None:
        self.epoch, self.has, self.told = 0, NOTHING, NOTHING

    def hear(self, response: StreamsGroupHeartbeatResponse) -> None:
        if response.error_code == ErrorCode.NOT_COORDINATOR:
            return  # nothing was written: it asks again
        if response.error_code:
            assert response.error_code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ), response
            self.lose_everything()
            return
        self.epoch = response.member_epoch
        told = assigned(response)
        if told is not None:
            self.told = told
            if self.has.active <= told.active and self.has.standby <= told.standby:
                self.has = told

    def revoke(self) -> None:
        self.has = self.told


class StreamsGroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.simulation = StreamsSimulation()
        self.threads: dict[str, Thread] = {}
        self.numbers = 0
        self.partitions = 3
        self.seen_epochs = (0, 0)

    def _any(self, data: st.DataObject) -> Thread:
        return self.threads[data.draw(st.sampled_from(sorted(self.threads)))]

    # -- clients ------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.threads) < 5)
    @rule(process_id=st.sampled_from("pqr"))
    def a_thread_starts(self, process_id: str) -> None:
        self.numbers += 1
        thread = Thread(f"m{self.numbers}", process_id)
        self.threads[thread.member_id] = thread
        self._beat(thread)

    def _beat(self, thread: Thread, *, deliver: bool = True) -> None:
        if thread.epoch == 0:
            thread.lose_everything()
            response = self.simulation.arrive(thread.member_id, process_id=thread.process_id)
        else:
            response = self.simulation.beat(thread.member_id, thread.epoch, thread.has)
        if deliver:
            thread.hear(response)

    @precondition(lambda self: self.threads)
    @rule(data=st.data(), deliver=st.integers(0, 4))
    def a_thread_sends_a_heartbeat(self, data: st.DataObject, deliver: int) -> None:
        """One answer in five is lost."""
        self._beat(self._any(data), deliver=deliver > 0)

    @precondition(lambda self: self.threads)
    @rule(data=st.data())
    def a_thread_gives_up_what_it_was_asked_for(self, data: st.DataObject) -> None:
        thread = self._any(data)
        thread.revoke()
        self._beat(thread)

    @precondition(lambda self: self.threads)
    @rule(data=st.data())
    def a_thread_leaves(self, data: st.DataObject) -> None:
        thread = self.threads.pop(self._any(data).member_id)
        self.simulation.depart(thread.member_id)

    @precondition(lambda self: self.threads)
    @rule(data=st.data())
    def a_thread_dies(self, data: st.DataObject) -> None:
        del self.threads[self._any(data).member_id]

    # -- the world ----------------------------------------------------------------------------------

    @rule(replicas=st.integers(0, 2))
    def the_number_of_standbys_is_set(self, replicas: int) -> None:
        self.simulation.overrides["streams.num.standby.replicas"] = str(replicas)

    @rule(interval_ms=st.sampled_from((0, 1000)), delay_ms=st.sampled_from((0, 3000)))
    def delays_are_set(self, interval_ms: int, delay_ms: int) -> None:
        self.simulation.overrides["streams.assignment.interval.ms"] = str(interval_ms)
        self.simulation.overrides["streams.initial.rebalance.delay.ms"] = str(delay_ms)

    @rule(partitions=st.integers(1, 5), name=st.sampled_from(("words", "counts", "lines")))
    def a_topic_is_made_anew(self, partitions: int, name: str) -> None:
        if name in self.simulation.image.topics:
            self.simulation.remove_topic(name)
        self.simulation.create(name, partitions)

    @precondition(lambda self: len(self.simulation.image.topics) > 1)
    @rule(data=st.data())
    def a_topic_is_deleted(self, data: st.DataObject) -> None:
        self.simulation.remove_topic(data.draw(st.sampled_from(sorted(self.simulation.image.topics))))

    @rule(seconds=st.integers(1, 50))
    def time_passes(self, seconds: int) -> None:
        self.simulation.clock.advance(seconds * 1000)
        if seconds * 1000 > SESSION_MS:
            for thread in self.threads.values():  # it notices that it was silent too long
                thread.lose_everything()

    @rule()
    def another_broker_coordinates(self) -> None:
        self.simulation.restart()

    @rule()
    def the_disk_is_full_for_a_moment(self) -> None:
        self.simulation.files.fail_at(1, OSError(28, "no space left"), "append")

    # -- what must hold -----------------------------------------------------------------------------

    def _group(self) -> StreamsGroup | None:
        group = self.simulation.shard.groups.get(GROUP)
        return group if isinstance(group, StreamsGroup) else None

    def _members(self) -> list[Thread]:
        """Others are fenced: they will hear of it, and cannot commit."""
        group = self._group()
        known = {} if group is None else group.members
        return [thread for thread in self.threads.values() if thread.member_id in known]

    @invariant()
    def no_active_task_is_processed_twice(self) -> None:
        active = [task for thread in self._members() for task in thread.has.active]
        assert len(active) == len(set(active))

    @invariant()
    def no_process_has_a_task_twice(self) -> None:
        here = [
            (thread.process_id, task)
            for thread in self._members()
            for task in (*thread.has.active, *thread.has.standby)
        ]
        assert len(here) == len(set(here))

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self._group()
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
        self._make_topics_fit()
        self._settle()
        group = self._group()
        if not self.threads or group is None:
            return
        assert group.state is GroupState.STABLE
        assert set(group.members) == set(self.threads)
        assert all(thread.has == group.target(name) for name, thread in self.threads.items())
        active = sorted(task for thread in self.threads.values() for task in thread.has.active)
        assert active == [Task(one, index) for one in "01" for index in range(4)]

    def _make_topics_fit(self) -> None:
        for name in ("lines", "words", "counts"):
            self.a_topic_is_made_anew(4, name)

    def _settle(self) -> None:
        """The dead are noticed while the others go on."""
        for _ in range(14):
            self.simulation.clock.advance(6000)
            for thread in self.threads.values():
                thread.revoke()
                self._beat(thread)


StreamsGroupModel.TestCase.settings = settings(
    max_examples=50,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestStreamsGroupModel = StreamsGroupModel.TestCase


def test_a_thread_keeps_what_it_has_until_it_has_revoked() -> None:
    """The model itself: a client does not drop tasks by hearing that it shall."""
    thread = Thread("a", "p")
    thread.has = thread.told = Tasks(frozenset({Task("0", 0)}))
    thread.hear(
        StreamsGroupHeartbeatResponse(member_epoch=3, active_tasks=[], standby_tasks=[], warmup_tasks=[])
    )
    assert thread.has.active
    thread.revoke()
    assert not thread.has
