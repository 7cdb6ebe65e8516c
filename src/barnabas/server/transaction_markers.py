"""Markers: telling every partition of a transaction how it has ended.

A marker goes to the leader of its partition: a short cut when that is this broker, WriteTxnMarkers through `Peers`
when it is another. What can be repaired (no leader, a full disk) is tried again until it works, because
readers of committed data wait for it. A partition that is gone needs no marker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cluster.names import CONSUMER_OFFSETS
from barnabas.coordination.shard import Producer
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.log import Origin
from barnabas.log_lines import limited_logger
from barnabas.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.replication.partition import ALL_REPLICAS, NO_EPOCH, Partition
from barnabas.transactions.transaction import V2
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

logger = limited_logger(__name__)

RETRY_SECONDS = 0.1
NO_LEADER = -1
MARKER_SECONDS = 10.0  # less than the coordinator waits for an answer (REQUEST_SECONDS in cluster/peers.py)

# The transaction is over in such a partition already, or nothing of it can be there.
_SETTLED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_NOT_HERE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)

Answer = Callable[[ErrorCode], None]


class Marker(NamedTuple):
    """How one producer's transaction ended, and who says so."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    version: int

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def ending(self) -> EndTransactionMarker:
        return EndTransactionMarker(self.committed, self.coordinator_epoch)


# -- in a partition that this broker leads ------------------------------------------------------------


def write_here(broker: Broker, place: TopicPartition, marker: Marker, answer: Answer) -> None:
    """Append a marker to a partition of ours; answer when it is as safe as acks=all."""
    partition = broker.replicas.find(*place)
    if partition is None:
        answer(broker.replicas.why_missing(place.topic, bytes(16), place.partition))
    elif place.topic == CONSUMER_OFFSETS:
        _complete_offsets(broker, place.partition, marker, answer)
    else:
        _append(broker, partition, marker, answer)


def _complete_offsets(broker: Broker, index: int, marker: Marker, answer: Answer) -> None:
    """The group coordinator writes the marker itself, and lets the pending offsets count."""

    def done(result: KafkaError | None) -> None:
        code = result.code if result is not None else ErrorCode.NONE
        answer(ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_HERE else code)

    broker.coordinators.groups.complete_transaction(index, marker.producer, marker.ending, done)


def _append(broker: Broker, partition: Partition, marker: Marker, answer: Answer) -> None:
    try:
        if _is_repeated(partition, marker):
            end = partition.log.log_end_offset
        else:
            now_ms = broker.clock.now_ms()
            batch = end_transaction_marker(*marker.producer, marker.ending, timestamp=now_ms)
            end = (
                partition.append(memoryview(batch), now_ms, ALL_REPLICAS, Origin.COORDINATOR).last_offset + 1
            )
    except KafkaError as error:
        answer(error.code)
        return
    broker.when_safe(partition, end, answer)


def _is_repeated(partition: Partition, marker: Marker) -> bool:
    """Markers of transactions V2 carry an epoch that no record has: seen again, they were written before (KIP-1228)."""
    known = partition.log.producers.get(marker.producer_id)
    if marker.version < V2 or known is None or marker.producer_epoch > known.epoch:
        return False
    if marker.producer_epoch == known.epoch and known.transaction_start is None:
        return True
    raise KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"a marker of epoch {marker.producer_epoch} for producer {marker.producer_id}, whose epoch is {known.epoch}",
    )


def refusal_of_client(broker: Broker, place: TopicPartition, marker: Marker) -> ErrorCode:
    """Why a marker that no broker has sent is not written. Administrators end what hangs with one, and that is all
    that they need: to abort a transaction that is open in the partition, with the epochs that DescribeProducers shows.
    A later epoch would shut out the producer, or the coordinator, for good (decision 0021)."""
    partition = broker.replicas.find(*place)
    if partition is None:
        return broker.replicas.why_missing(place.topic, bytes(16), place.partition)
    if problem := partition.leadership_error(NO_EPOCH):
        return problem
    known = partition.log.producers.get(marker.producer_id)
    if known is None or known.transaction_start is None:
        return ErrorCode.INVALID_TXN_STATE
    if marker.producer_epoch != known.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if marker.committed or marker.coordinator_epoch > max(known.coordinator_epoch, 0):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.NONE


class MarkersWritten:
    """Answers when every marker is safe, or says which are not yet: the coordinator tries those again."""

    def __init__(self, broker: Broker, request: Request, response: WriteTxnMarkersResponse) -> None:
        self._request = request
        self._response = response
        self._open = {
            id(result): result
            for marker in response.markers
            for topic in marker.topics
            for result in topic.partitions
        }
        self._all_asked = False
        self._timer = broker.timers.call_later(MARKER_SECONDS, self._time_out)

    def settle(self, result: WritableTxnMarkerPartitionResult, error: ErrorCode) -> None:
        if self._open.pop(id(result), None) is not None:
            result.error_code = error
            self._answer_if_complete()

    def all_asked(self) -> None:
        self._all_asked = True
        self._answer_if_complete()

    def _time_out(self) -> None:
        for result in list(self._open.values()):
            self.settle(result, ErrorCode.REQUEST_TIMED_OUT)

    def _answer_if_complete(self) -> None:
        if self._all_asked and not self._open:
            self._timer.cancel()
            self._request.respond(self._response)


# -- in all partitions of a transaction -----------------------------------------------------------------


class MarkerRound:
    """The markers of one transaction, until every partition has its own."""

    def __init__(
        self,
        broker: Broker,
        marker: Marker,
        partitions: Iterable[TopicPartition],
        is_wanted: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._marker = marker
        self._open = set(partitions)
        self._is_wanted = is_wanted
        self._done = done
        self._unanswered = 0
        self._questions: set[asyncio.Task[None]] = set()  # the loop itself does not keep them alive

    def run(self) -> None:
        """Ask every leader once; come back for what has failed."""
        places = [place for place in sorted(self._open) if self._leader(place) is not None]
        self._open.intersection_update(places)
        if not self._open:
            self._done()
            return
        self._unanswered = len(places) + 1  # one for ourselves: some answer at once
        by_leader = sorted((self._leader(place) or 0, place) for place in places)
        for leader, group in groupby(by_leader, key=lambda pair: pair[0]):
            self._ask(leader, [place for _, place in group])
        self._answered()

    def _leader(self, place: TopicPartition) -> int | None:
        """Who leads the partition now; None when there is no such partition any more."""
        topic = self._broker.image.topics.get(place.topic)
        if topic is None or place.partition >= len(topic.partitions):
            return None
        return topic.partitions[place.partition].leader

    def _ask(self, leader: int, places: list[TopicPartition]) -> None:
        if leader == self._broker.node_id:
            for place in places:
                write_here(self._broker, place, self._marker, lambda error, at=place: self._settle(at, error))  # type: ignore[misc]
        elif leader == NO_LEADER:
            for place in places:
                self._settle(place, ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            question = asyncio.get_running_loop().create_task(self._ask_peer(leader, places))
            self._questions.add(question)
            question.add_done_callback(self._questions.discard)

    async def _ask_peer(self, leader: int, places: list[TopicPartition]) -> None:
        errors: dict[TopicPartition, ErrorCode] = {}
        try:
            response = await self._broker.peers.send(leader, marker_request(self._marker, places))
            for result in response.markers:
                for topic in result.topics:
                    for partition in topic.partitions:
                        place = TopicPartition(topic.name, partition.partition_index)
                        errors[place] = ErrorCode(partition.error_code)
        except KafkaError as error:
            errors = dict.fromkeys(places, error.code)
        for place in places:
            self._settle(place, errors.get(place, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _settle(self, place: TopicPartition, error: ErrorCode) -> None:
        if error in _SETTLED:
            self._open.discard(place)
        elif error == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            logger.warning("%s has heard from a newer transaction coordinator than this one", place)
        self._answered()

    def _answered(self) -> None:
        self._unanswered -= 1
        if self._unanswered:
            return
        if not self._open:
            self._done()
        else:
            self._broker.timers.call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        if self._is_wanted():
            self.run()


def marker_request(marker: Marker, places: list[TopicPartition]) -> WriteTxnMarkersRequest:
    topics = groupby(sorted(places), key=lambda place: place.topic)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.version,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=[place.partition for place in group])
                    for name, group in topics
                ],
            )
        ]
    )
