"""Common parts of ShareFetch and ShareAcknowledge: member check, acknowledgements, leaders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.coordination import ask_each
from barnabas.handlers.endpoints import endpoints_for
from barnabas.handlers.needs import IsMember
from barnabas.protocol.internal_topics import SharePartitionKey
from barnabas.protocol.messages.share import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from barnabas.share import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    AcknowledgedRange,
    AcknowledgementBatch,
    SessionKey,
    SharePartitionManager,
    ShareSession,
    TopicIdPartition,
    read_acknowledgements,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request


MAX_MEMBER_ID = 36  # a UUID; longer ones are refused, as by Kafka
_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

Outcomes = dict[TopicIdPartition, KafkaError | None]


class ShareCoordinators(Protocol):
    @property
    def share_partitions(self) -> SharePartitionManager: ...


class ShareNeeds(IsMember, Protocol):
    """Broker attributes used by ShareFetch and ShareAcknowledge."""

    @property
    def coordinators(self) -> ShareCoordinators: ...


def check_member(group_id: str | None, member_id: str | None) -> SessionKey:
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not member_id or len(member_id) > MAX_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(group_id, member_id)


class RequestedPartition(Protocol):
    """A partition in ShareFetch or ShareAcknowledge."""

    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]: ...


class RequestedTopic(Protocol):
    topic_id: Uuid

    @property
    def partitions(self) -> Sequence[RequestedPartition]: ...


class Acknowledging:
    """Acknowledgements of one request, until every partition has stored its own."""

    def __init__(self, broker: ShareNeeds, member: SessionKey, *, renewing: bool) -> None:
        self._broker = broker
        self._member = member
        self._renewing = renewing
        self.is_done = False
        self.outcomes: Outcomes = {}

    def start(self, topics: Iterable[RequestedTopic], done: Callable[[], None]) -> None:
        checked: list[tuple[TopicIdPartition, list[AcknowledgedRange]]] = []
        for topic in topics:
            for wanted in topic.partitions:
                tp = TopicIdPartition(topic.topic_id, wanted.partition_index)
                try:
                    ranges = self._read(tp, wanted.acknowledgement_batches)
                except KafkaError as error:
                    self.outcomes[tp] = error
                else:
                    if ranges:
                        checked.append((tp, ranges))

        def stored(errors: list[KafkaError | None]) -> None:
            partitions = [tp for tp, _ in checked]
            self.outcomes.update(zip(partitions, errors, strict=True))
            self.is_done = True
            done()

        ask_each(checked, self._store, stored)

    def _read(self, tp: TopicIdPartition, batches: Sequence[AcknowledgementBatch]) -> list[AcknowledgedRange]:
        topic = self._broker.image.topic_by_id(tp.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        ranges = read_acknowledgements(batches, renewing=self._renewing)
        if topic.partition(tp.partition) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return ranges

    def _store(
        self,
        acknowledged: tuple[TopicIdPartition, list[AcknowledgedRange]],
        stored: Callable[[KafkaError | None], None],
    ) -> None:
        tp, ranges = acknowledged
        key = SharePartitionKey(self._member.group_id, *tp)
        led_partition = self._broker.coordinators.share_partitions.find(key)
        if led_partition is None:
            stored(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            led_partition.acknowledge(self._member.member_id, ranges, stored)


class Leaders(NamedTuple):
    """Current leaders of the partitions of a response that are led elsewhere (KIP-951)."""

    broker: ShareNeeds
    request: Request
    nodes: set[int]

    def point_to(self, tp: TopicIdPartition, error: ErrorCode, data: Any) -> None:
        topic = self.broker.image.topic_by_id(tp.topic_id)
        state = topic.partition(tp.partition) if topic is not None else None
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


# -- A share fetch above its consumer's quota: nothing is sent, and the acquired records are released


def withheld(
    broker: ShareNeeds, message: ShareFetchRequest, response: ShareFetchResponse
) -> ShareFetchResponse:
    """Return the response without records. Results of acknowledgements are kept."""
    acknowledged = {
        (topic.topic_id, wanted.partition_index)
        for topic in message.topics
        for wanted in topic.partitions
        if wanted.acknowledgement_batches
    }
    for topic in response.responses:
        for data in topic.partitions:
            if data.acquired_records:
                key = SharePartitionKey(message.group_id or "", topic.topic_id, data.partition_index)
                _give_back(broker.coordinators.share_partitions, key, message.member_id or "", data)
        topic.partitions = [
            data for data in topic.partitions if (topic.topic_id, data.partition_index) in acknowledged
        ]
    response.responses = [topic for topic in response.responses if topic.partitions]
    return response


def _give_back(
    partitions: SharePartitionManager, key: SharePartitionKey, member: str, data: ShareFetchPartitionData
) -> None:
    led_partition = partitions.find(key)
    if led_partition is not None:
        led_partition.partition.counters.bytes_out.value -= len(data.records or b"")
        led_partition.give_back(
            member, [(each.first_offset, each.last_offset) for each in data.acquired_records]
        )
    data.records, data.acquired_records = b"", []


# -- ShareAcknowledge, versions 1 and 2. Version 2 brought renewing (KIP-1222)


def share_acknowledge(
    broker: ShareNeeds, request: Request, message: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | None:
    try:
        session = _session(broker, message)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    acknowledging = Acknowledging(broker, session.key, renewing=message.is_renew_ack)

    def done() -> None:
        if message.share_session_epoch == FINAL_EPOCH:
            broker.coordinators.share_partitions.end_session(session)
        request.respond(_response(broker, request, session, acknowledging))

    acknowledging.start(message.topics, done)
    return None


def _session(broker: ShareNeeds, message: ShareAcknowledgeRequest) -> ShareSession:
    key = check_member(message.group_id, message.member_id)
    if message.share_session_epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "a session starts with a fetch")
    session = broker.coordinators.share_partitions.sessions.find(key)
    if message.share_session_epoch != FINAL_EPOCH:
        session.pass_epoch(message.share_session_epoch)
    return session


def _response(
    broker: ShareNeeds, request: Request, session: ShareSession, acknowledging: Acknowledging
) -> ShareAcknowledgeResponse:
    leaders = Leaders(broker, request, set())
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for tp, error in acknowledging.outcomes.items():
        data = ShareAcknowledgePartitionData(partition_index=tp.partition)
        if error is not None:
            data.error_code, data.error_message = error.code, error.message
            leaders.point_to(tp, error.code, data)
        topic = topics.setdefault(tp.topic_id, ShareAcknowledgeTopicResponse(tp.topic_id, []))
        topic.partitions.append(data)
    lock_ms = broker.coordinators.share_partitions.configs.milliseconds(
        session.key.group_id, "share.record.lock.duration.ms"
    )
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=list(topics.values()),
        node_endpoints=leaders.endpoints(),
    )
