"""What ShareFetch and ShareAcknowledge have in common: who asks, what is acknowledged, where leaders are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.coordination.tasks import ask_each
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.endpoints import endpoints_for
from barnabas.handlers.needs import IsMember
from barnabas.protocol.internal_topics import SharePartitionKey
from barnabas.protocol.messages.share import LeaderIdAndEpoch, NodeEndpoint
from barnabas.share.acknowledgements import AcknowledgementBatch, Range, read_acknowledgements
from barnabas.share.partition_manager import SharePartitionManager
from barnabas.share.sessions import SessionKey, TopicIdPartition
from barnabas.common.types import Uuid

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Request

LONGEST_MEMBER_ID = 36  # a UUID; longer ones are refused, as by Kafka
_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

Outcomes = dict[TopicIdPartition, KafkaError | None]


class Coordinators(Protocol):
    @property
    def share_partitions(self) -> SharePartitionManager: ...


class ShareNeeds(IsMember, Protocol):
    """What ShareFetch and ShareAcknowledge need from the broker."""

    @property
    def coordinators(self) -> Coordinators: ...


def check_member(group_id: str | None, member_id: str | None) -> SessionKey:
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not member_id or len(member_id) > LONGEST_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(group_id, member_id)


class WantedPartition(Protocol):
    """A partition in ShareFetch or ShareAcknowledge."""

    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]: ...


class WantedTopic(Protocol):
    topic_id: Uuid

    @property
    def partitions(self) -> Sequence[WantedPartition]: ...


class Acknowledging:
    """The acknowledgements of one request, until every partition has stored its own."""

    def __init__(self, broker: ShareNeeds, member: SessionKey, *, renewing: bool) -> None:
        self._broker = broker
        self._member = member
        self._renewing = renewing
        self.is_done = False
        self.outcomes: Outcomes = {}

    def start(self, topics: Iterable[WantedTopic], done: Callable[[], None]) -> None:
        checked: list[tuple[TopicIdPartition, list[Range]]] = []
        for topic in topics:
            for wanted in topic.partitions:
                place = TopicIdPartition(topic.topic_id, wanted.partition_index)
                try:
                    ranges = self._read(place, wanted.acknowledgement_batches)
                except KafkaError as error:
                    self.outcomes[place] = error
                else:
                    if ranges:
                        checked.append((place, ranges))

        def stored(errors: list[KafkaError | None]) -> None:
            places = [place for place, _ in checked]
            self.outcomes.update(zip(places, errors, strict=True))
            self.is_done = True
            done()

        ask_each(checked, self._store, stored)

    def _read(self, place: TopicIdPartition, batches: Sequence[AcknowledgementBatch]) -> list[Range]:
        topic = self._broker.image.topic_by_id(place.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        ranges = read_acknowledgements(batches, renewing=self._renewing)
        if topic.partition(place.partition) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return ranges

    def _store(
        self,
        acknowledged: tuple[TopicIdPartition, list[Range]],
        stored: Callable[[KafkaError | None], None],
    ) -> None:
        place, ranges = acknowledged
        key = SharePartitionKey(self._member.group_id, *place)
        led = self._broker.coordinators.share_partitions.find(key)
        if led is None:
            stored(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            led.acknowledge(self._member.member_id, ranges, stored)


class Leaders(NamedTuple):
    """Where to go instead, for the partitions of an answer that are led elsewhere (KIP-951)."""

    broker: ShareNeeds
    request: Request
    nodes: set[int]

    def point_to(self, place: TopicIdPartition, error: ErrorCode, data: Any) -> None:
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
            for node_id, host, port, rack in endpoints_for(self.broker, self.request.connection)
            if node_id in self.nodes
        ]
