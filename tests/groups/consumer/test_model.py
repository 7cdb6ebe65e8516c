"""A consumer group under everything that clients, topics and coordinators do, against a model of its clients.

Whatever happens: no partition is consumed twice, epochs never go back, and what is in memory is what a replay of the
log gives. When it stops happening, the group settles: everything is assigned, and evenly.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.errors import ErrorCode
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.modern import GroupState
from barnabas.protocol.messages.consumer import ConsumerGroupHeartbeatResponse
from tests.groups.consumer.simulation import SESSION_MS, ConsumerSimulation, Held, told
from tests.groups.consumer.talks import REBALANCE_MS
from tests.groups.simulation import GROUP

TOPICS = ("ants", "bees", "cats")
SUBSCRIPTIONS = st.one_of(
    st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3, unique=True).map(lambda names: (names, "")),
    st.sampled_from(("a.*", ".*s", "cats|dogs")).map(lambda pattern: ([], pattern)),
)


class Consumer:
    """What a client knows. It consumes what it holds; what it shall give up it holds until it `revokes`."""

    def __init__(self, member_id: str, instance_id: str | None) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.epoch = 0
        self.holds: Held = {}
        self.assigned: Held = {}
        self.is_member = False
        self.has_missed_an_answer = False

    def hear(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code == ErrorCode.NOT_COORDINATOR:
            return  # nothing was written: it asks again
        if response.error_code:
            assert response.error_code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ), response
            self.lose_everything()
            return
        self.is_member = True
        self.epoch = response.member_epoch
        heard = told(response)
        if heard is not None:
            self.assigned = heard
            # With nothing to give up, what is new can be consumed at once.
            if all(indexes <= heard.get(topic, set()) for topic, indexes in self.holds.items()):
                self.holds = {topic: set(indexes) for topic, indexes in heard.items()}

    def revoke(self) -> None:
        self.holds = {topic: set(indexes) for topic, indexes in self.assigned.items()}

    def lose_everything(self) -> None:
        self.epoch, self.holds, self.assigned, self.is_member = 0, {}, {}, False


class ConsumerGroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.simulation = ConsumerSimulation({"ants": 3, "bees": 2})
        self.clients: dict[str, Consumer] = {}
        self.subscriptions: dict[str, tuple[list[str], str]] = {}
        self.numbers = 0
        self.seen_epochs = (0, 0)

    def _any(self, data: st.DataObject) -> Consumer:
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    # -- clients ------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(subscription=SUBSCRIPTIONS, is_static=st.booleans())
    def a_client_starts(self, subscription: tuple[list[str], str], is_static: bool) -> None:
        self.numbers += 1
        member_id = f"m{self.numbers}"
        self.clients[member_id] = Consumer(member_id, f"i{self.numbers}" if is_static else None)
        self.subscriptions[member_id] = subscription
        self._beat(self.clients[member_id])

    def _beat(self, client: Consumer, *, deliver: bool = True) -> None:
        names, pattern = self.subscriptions[client.member_id]
        fields: dict[str, Any] = {"instance_id": client.instance_id}
        if not client.is_member or client.epoch == 0:
            client.lose_everything()
            response = self.simulation.joins(
                client.member_id, subscribed_topic_names=names, subscribed_topic_regex=pattern, **fields
            )
        else:
            if client.has_missed_an_answer:  # as clients do: it tells everything, and is told everything
                fields["rebalance_timeout_ms"] = REBALANCE_MS
            response = self.simulation.beats(
                client.member_id,
                client.epoch,
                client.holds,
                subscribed_topic_names=names,
                subscribed_topic_regex=pattern,
                **fields,
            )
        client.has_missed_an_answer = not deliver
        if deliver:
            client.hear(response)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), deliver=st.integers(0, 4))
    def a_client_sends_a_heartbeat(self, data: st.DataObject, deliver: int) -> None:
        """One answer in five is lost."""
        self._beat(self._any(data), deliver=deliver > 0)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_gives_up_what_it_was_asked_for(self, data: st.DataObject) -> None:
        client = self._any(data)
        client.revoke()
        self._beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), subscription=SUBSCRIPTIONS)
    def a_client_changes_its_subscription(
        self, data: st.DataObject, subscription: tuple[list[str], str]
    ) -> None:
        client = self._any(data)
        self.subscriptions[client.member_id] = subscription
        self._beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_leaves(self, data: st.DataObject) -> None:
        client = self._any(data)
        client.lose_everything()
        self.simulation.beats(client.member_id, -1, instance_id=client.instance_id)
        del self.clients[client.member_id]

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_dies(self, data: st.DataObject) -> None:
        del self.clients[self._any(data).member_id]

    @precondition(lambda self: any(client.instance_id for client in self.clients.values()))
    @rule(data=st.data())
    def a_static_client_restarts(self, data: st.DataObject) -> None:
        static = sorted(name for name, client in self.clients.items() if client.instance_id)
        client = self.clients.pop(data.draw(st.sampled_from(static)))
        self.simulation.beats(client.member_id, -2, instance_id=client.instance_id)
        self.numbers += 1
        again = Consumer(f"m{self.numbers}", client.instance_id)
        self.clients[again.member_id] = again
        self.subscriptions[again.member_id] = self.subscriptions[client.member_id]
        self._beat(again)

    # -- the world ----------------------------------------------------------------------------------

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 3))
    def a_topic_grows(self, name: str, partitions: int) -> None:
        known = self.simulation.image.topics.get(name)
        self.simulation.create(name, min((len(known.partitions) if known else 0) + partitions, 8))

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

    def _group(self) -> ConsumerGroup | None:
        group = self.simulation.shard.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    @invariant()
    def no_partition_is_consumed_twice(self) -> None:
        group = self._group()
        consumed: set[tuple[bytes, int]] = set()
        for client in self.clients.values():
            if group is None or client.member_id not in group.members:
                continue  # fenced: it will hear of it, and cannot commit
            places = {(topic, index) for topic, indexes in client.holds.items() for index in indexes}
            assert not places & consumed
            consumed |= places

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
        self._settle()
        group = self._group()
        if not self.clients or group is None:
            return
        assert group.state is GroupState.STABLE
        assert set(group.members) == set(self.clients)
        self._check_that_all_is_assigned(group)
        self._check_balance(group)

    def _settle(self) -> None:
        """The dead are noticed while the others go on; then topics that came are found."""
        for _ in range(12):
            self.simulation.clock.advance(6000)
            for client in self.clients.values():
                client.revoke()
                self._beat(client)

    def _check_that_all_is_assigned(self, group: ConsumerGroup) -> None:
        topics = self.simulation.image.topics
        wanted = {name for member in group.members.values() for name in group.topics_of(member)}
        places = {
            (topics[name].topic_id, index)
            for name in wanted
            if name in topics
            for index in range(len(topics[name].partitions))
        }
        held = [
            (topic, index)
            for client in self.clients.values()
            for topic, indexes in client.holds.items()
            for index in indexes
        ]
        assert sorted(held) == sorted(places)

    def _check_balance(self, group: ConsumerGroup) -> None:
        subscriptions = {frozenset(group.topics_of(member)) for member in group.members.values()}
        if len(subscriptions) == 1:
            sizes = [sum(map(len, client.holds.values())) for client in self.clients.values()]
            assert max(sizes) - min(sizes) <= 1


ConsumerGroupModel.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestConsumerGroupModel = ConsumerGroupModel.TestCase
