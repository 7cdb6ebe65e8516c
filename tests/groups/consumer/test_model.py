"""A consumer group under random actions of clients, topics and coordinators, against a model of its clients.

Whatever happens: no partition is consumed twice, epochs never go back, and what is in memory is what a replay of the
log gives. When it stops happening, the group settles: everything is assigned, and evenly.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from barnabas.common.errors import ErrorCode
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.protocol.messages.consumer import ConsumerGroupHeartbeatResponse
from tests.groups.consumer.simulation import ConsumerSimulation, Held, told
from tests.groups.consumer.talks import REBALANCE_MS
from tests.groups.modern_model import ModelClient, ModernGroupModel, steps

TOPICS = ("ants", "bees", "cats")
SUBSCRIPTIONS: st.SearchStrategy[tuple[list[str], str]] = st.one_of(
    st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3, unique=True).map(lambda names: (names, "")),
    st.sampled_from(("a.*", ".*s", "cats|dogs")).map(lambda pattern: ([], pattern)),
)


class Consumer(ModelClient):
    """Consumes its assigned partitions."""

    EXPECTED_ERRORS = frozenset(
        {
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNRELEASED_INSTANCE_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        }
    )

    holds: Held
    assigned: Held

    def __init__(self, member_id: str, instance_id: str | None) -> None:
        super().__init__(member_id)
        self.instance_id = instance_id
        self.has_missed_an_answer = False

    def learn(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.is_member = True
        received = told(response)
        if received is not None:
            self.assigned = received
            # Without partitions to revoke, new ones can be consumed immediately.
            if all(indexes <= received.get(topic, set()) for topic, indexes in self.holds.items()):
                self.holds = {topic: set(indexes) for topic, indexes in received.items()}

    def revoke(self) -> None:
        self.holds = {topic: set(indexes) for topic, indexes in self.assigned.items()}

    def lose_everything(self) -> None:
        self.epoch, self.is_member = 0, False
        self.holds = {}
        self.assigned = {}


class ConsumerGroupModel(ModernGroupModel[Consumer]):
    GROUP_TYPE = ConsumerGroup

    def __init__(self) -> None:
        super().__init__(ConsumerSimulation({"ants": 3, "bees": 2}))
        self.subscriptions: dict[str, tuple[list[str], str]] = {}

    # -- clients ------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(subscription=SUBSCRIPTIONS, is_static=st.booleans())
    def a_client_starts(self, subscription: tuple[list[str], str], is_static: bool) -> None:
        number = self.new_number()
        self._start(Consumer(f"m{number}", f"i{number}" if is_static else None), subscription)

    def _start(self, client: Consumer, subscription: tuple[list[str], str]) -> None:
        self.clients[client.member_id] = client
        self.subscriptions[client.member_id] = subscription
        self.beat(client)

    def beat(self, client: Consumer, *, deliver: bool = True) -> None:
        names, pattern = self.subscriptions[client.member_id]
        fields: dict[str, Any] = {
            "instance_id": client.instance_id,
            "subscribed_topic_names": names,
            "subscribed_topic_regex": pattern,
        }
        if not client.is_member or client.epoch == 0:
            client.lose_everything()
            response = self.simulation.joins(client.member_id, **fields)
        else:
            if client.has_missed_an_answer:  # a full request: the response has the assignment
                fields["rebalance_timeout_ms"] = REBALANCE_MS
            response = self.simulation.beats(client.member_id, client.epoch, client.holds, **fields)
        if not deliver:
            client.has_missed_an_answer = True
            return
        client.hear(response)
        if not response.error_code:  # after an error, Kafka's clients send a full request too
            client.has_missed_an_answer = False

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), subscription=SUBSCRIPTIONS)
    def a_client_changes_its_subscription(
        self, data: st.DataObject, subscription: tuple[list[str], str]
    ) -> None:
        client = self.any_client(data)
        self.subscriptions[client.member_id] = subscription
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_leaves(self, data: st.DataObject) -> None:
        client = self.clients.pop(self.any_client(data).member_id)
        self.simulation.beats(client.member_id, -1, instance_id=client.instance_id)

    @precondition(lambda self: any(client.instance_id for client in self.clients.values()))
    @rule(data=st.data())
    def a_static_client_restarts(self, data: st.DataObject) -> None:
        static = sorted(name for name, client in self.clients.items() if client.instance_id)
        client = self.clients.pop(data.draw(st.sampled_from(static)))
        self.simulation.beats(client.member_id, -2, instance_id=client.instance_id)
        again = Consumer(f"m{self.new_number()}", client.instance_id)
        self._start(again, self.subscriptions[client.member_id])

    # -- the world ----------------------------------------------------------------------------------

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 3))
    def a_topic_grows(self, name: str, partitions: int) -> None:
        known = self.simulation.image.topics.get(name)
        self.simulation.create(name, min((len(known.partitions) if known else 0) + partitions, 8))

    # -- what must hold -----------------------------------------------------------------------------

    @invariant()
    def no_partition_is_consumed_twice(self) -> None:
        consumed = self._held_by(self.members)
        assert len(consumed) == len(set(consumed))

    def _held_by(self, clients: list[Consumer]) -> list[tuple[bytes, int]]:
        return [
            (topic, index)
            for client in clients
            for topic, indexes in client.holds.items()
            for index in indexes
        ]

    def check_that_all_is_assigned(self, group: ConsumerGroup) -> None:
        topics = self.simulation.image.topics
        wanted = {name for member in group.members.values() for name in group.topics_of(member)}
        places = [
            (topics[name].topic_id, index)
            for name in wanted
            if name in topics
            for index in range(len(topics[name].partitions))
        ]
        assert sorted(self._held_by([*self.clients.values()])) == sorted(places)
        self._check_balance(group)

    def _check_balance(self, group: ConsumerGroup) -> None:
        subscriptions = {frozenset(group.topics_of(member)) for member in group.members.values()}
        if len(subscriptions) == 1:
            sizes = [sum(map(len, client.holds.values())) for client in self.clients.values()]
            assert max(sizes) - min(sizes) <= 1


ConsumerGroupModel.TestCase.settings = steps(60)
TestConsumerGroupModel = ConsumerGroupModel.TestCase


def test_a_client_asks_for_its_assignment_until_it_has_a_response() -> None:
    """One response is lost, the next is an error; the assignment does not change after that."""
    model = ConsumerGroupModel()
    client = Consumer("m1", None)
    model._start(client, (["ants"], ""))
    model.a_topic_grows("ants", 1)
    model.beat(client, deliver=False)
    model._start(Consumer("m2", None), (["bees"], ""))
    model.the_disk_is_full_for_a_moment()
    model.beat(client)
    assert client.has_missed_an_answer
    model.teardown()
