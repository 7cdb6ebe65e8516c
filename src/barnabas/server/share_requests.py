"""What ShareFetch and ShareAcknowledge have in common: who asks, what is acknowledged, where leaders are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.share import LeaderIdAndEpoch, NodeEndpoint
from barnabas.queues.acknowledgements import Range, read_acknowledgements
from barnabas.queues.sessions import Place, SessionKey
from barnabas.queues.stored_state import ShareKey

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

LONGEST_MEMBER_ID = 36  # a UUID; longer ones are refused, as by Kafka
_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

Outcomes = dict[Place, KafkaError | None]


def check_member(group_id: str | None, member_id: str | None) -> SessionKey:
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not member_id or len(member_id) > LONGEST_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(group_id, member_id)


class Acknowledging:
    """The acknowledgements of one request, until every partition has stored its own."""

    def __init__(self, broker: Broker, member: SessionKey, *, renewing: bool) -> None:
        self._broker = broker
        self._member = member
        self._renewing = renewing
        self._missing = 1  # ourselves: some are settled at once
        self._done: Callable[[], None] = lambda: None
        self.outcomes: Outcomes = {}

    @property
    def is_done(self) -> bool:
        return not self._missing

    def start(self, topics: Iterable[Any], done: Callable[[], None]) -> None:
        self._done = done
        for topic in topics:
            for wanted in topic.partitions:
                self._acknowledge(Place(topic.topic_id, wanted.partition_index), wanted)
        self._settle()

    def _acknowledge(self, place: Place, wanted: Any) -> None:
        topic = self._broker.image.topic_by_id(place.topic_id)
        if topic is None:
            self.outcomes[place] = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            return
        try:
            ranges = read_acknowledgements(wanted.acknowledgement_batches, renewing=self._renewing)
        except KafkaError as error:
            self.outcomes[place] = error
            return
        if topic.partition(place.partition) is None:
            self.outcomes[place] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif ranges:
            self._pass_on(place, ranges)

    def _pass_on(self, place: Place, ranges: list[Range]) -> None:
        led = self._broker.coordinators.share_partitions.find(ShareKey(self._member.group_id, *place))
        if led is None:
            self.outcomes[place] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        self._missing += 1

        def stored(error: KafkaError | None) -> None:
            self.outcomes[place] = error
            self._settle()

        led.acknowledge(self._member.member_id, ranges, stored)

    def _settle(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._done()


class Leaders(NamedTuple):
    """Where to go instead, for the partitions of an answer that are led elsewhere (KIP-951)."""

    broker: Broker
    request: Request
    nodes: set[int]

    def point_to(self, place: Place, error: ErrorCode, data: Any) -> None:
        topic = self.broker.image.topic_by_id(place.topic_id)
        state = topic.partition(place.partition) if topic is not None else None
        if error in _ELSEWHERE and state is not None:
            data.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
            self.nodes.add(state.leader)

    def endpoints(self) -> list[NodeEndpoint]:
        if not self.nodes:
            return []
        return [
            NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in self.broker.endpoints_for(self.request.connection)
            if node_id in self.nodes
        ]
