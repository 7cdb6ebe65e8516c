"""Decisions of the hub in random sequences: one controller, one holder, increasing epochs, no waiting for free
resources."""

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from barnabas.cluster.hub.messages import ElectedController, HoldsGranted, NodeMembers
from barnabas.cluster.hub.state import CLEAN, CRASHED, KILLED, HubState, Outgoing
from barnabas.cluster.membership import BrokerInfo
from barnabas.common.types import TopicPartition

PARTITIONS = [TopicPartition("orders", index) for index in range(4)]
some = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=4, unique=True)


class Sessions(RuleBasedStateMachine):
    """A model of the sessions' messages."""

    sessions: Bundle[int] = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.state = HubState(node_stop=CRASHED)
        self.alive: set[int] = set()
        self.count = 0
        self.holds: dict[TopicPartition, int] = {}
        self.waiting: set[tuple[int, TopicPartition]] = set()
        self.stops: dict[TopicPartition, str] = {}
        self.unrecovered: set[tuple[int, TopicPartition]] = set()
        self.candidates: set[int] = set()
        self.controller_epochs: list[int] = [0]
        self.broker_epochs: list[int] = [0]

    def deliver(self, messages: Outgoing) -> None:
        for session, message in messages:
            assert session in self.alive
            if isinstance(message, HoldsGranted):
                for partition, stop in ((each.partition, each.stop) for each in message.granted):
                    assert self.holds.get(partition, session) == session
                    assert stop == self.stops.get(partition, CRASHED)
                    if partition not in self.holds and partition not in self.stops:
                        self.unrecovered.add((session, partition))
                    self.holds[partition] = session
                    self.waiting.discard((session, partition))
            elif isinstance(message, ElectedController):
                assert message.epoch > self.controller_epochs[-1]
                self.controller_epochs.append(message.epoch)
                assert session in self.candidates
            elif isinstance(message, NodeMembers):
                assert len({each.id for each in message.brokers}) == len(message.brokers)

    @rule(target=sessions)
    def begin(self) -> int:
        self.count += 1
        self.alive.add(self.count)
        self.state.begin(self.count)
        return self.count

    @rule(session=consumes(sessions), closed=some, in_order=st.booleans())
    def end(self, session: int, closed: Iterable[TopicPartition], in_order: bool) -> None:
        if in_order:
            self.state.close_in_order(session, closed)
        for partition in [each for each, holder in self.holds.items() if holder == session]:
            del self.holds[partition]
            if in_order and partition in closed:
                self.stops[partition] = CLEAN
            elif (session, partition) not in self.unrecovered:
                self.stops[partition] = KILLED
        self.alive.discard(session)
        self.candidates.discard(session)
        self.waiting = {each for each in self.waiting if each[0] != session}
        self.unrecovered = {each for each in self.unrecovered if each[0] != session}
        self.deliver(self.state.end(session))

    @rule(session=sessions, head=st.integers(0, 5))
    def join(self, session: int, head: int) -> None:
        epoch, messages = self.state.join(session, BrokerInfo(session), head)
        assert epoch > max(self.broker_epochs[-1], head)
        self.broker_epochs.append(epoch)
        self.deliver(messages)

    @rule(session=sessions)
    def leave(self, session: int) -> None:
        self.candidates.discard(session)
        self.deliver(self.state.leave(session))

    @rule(session=sessions)
    def enter_election(self, session: int) -> None:
        self.candidates.add(session)
        self.deliver(self.state.enter_election(session))

    @rule(session=sessions)
    def step_down(self, session: int) -> None:
        self.deliver(self.state.step_down(session))

    @rule(session=sessions, partitions=some)
    def request(self, session: int, partitions: list[TopicPartition]) -> None:
        self.waiting |= {(session, each) for each in partitions if self.holds.get(each) != session}
        self.deliver(self.state.request_holds(session, partitions, 1))

    @rule(session=sessions, partitions=some, are_closed=st.booleans())
    def release(self, session: int, partitions: list[TopicPartition], are_closed: bool) -> None:
        for each in partitions:
            if self.holds.get(each) == session:
                del self.holds[each]
                self.unrecovered.discard((session, each))
                if are_closed:
                    self.stops[each] = CLEAN
            self.waiting.discard((session, each))
        self.deliver(self.state.release(session, partitions, are_closed=are_closed))

    @rule(session=sessions)
    def has_recovered(self, session: int) -> None:
        self.state.has_recovered(session)
        self.unrecovered = {each for each in self.unrecovered if each[0] != session}

    @invariant()
    def nobody_waits_for_what_is_free(self) -> None:
        assert all(partition in self.holds for _, partition in self.waiting)

    @invariant()
    def holders_are_alive_and_known(self) -> None:
        for partition in PARTITIONS:
            for session in self.alive:
                is_held = self.state.is_held_by(session, partition)
                assert is_held == (self.holds.get(partition) == session)

    @invariant()
    def there_is_a_controller_if_there_is_a_candidate(self) -> None:
        if self.candidates:
            assert self.state.controller in self.candidates
        else:
            assert self.state.controller is None


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
