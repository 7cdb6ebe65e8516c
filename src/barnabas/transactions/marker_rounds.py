"""Markers for all partitions of a decided transaction (Kafka's TransactionMarkerChannelManager).

Each leader gets one WriteTxnMarkers for its partitions. What can be repaired (no leader, a full disk) is tried again
until it works, because readers of committed data wait for it. A partition that has been deleted needs no marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Protocol

from barnabas.common.clock import Timers
from barnabas.cluster.image import MetadataImage
from barnabas.coordination.channel import Channel, Done, CoordinatorRequest, Retry
from barnabas.coordination.tasks import ask_each
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.transactions.markers import Marker, MarkerWriter
from barnabas.common.types import TopicPartition

logger = rate_limited_logger(__name__)

RETRY = Retry(first_pause=0.1)

# The transaction is over in such a partition already, or nothing of it can be there.
_SETTLED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

Errors = dict[TopicPartition, ErrorCode]


class Host(Protocol):
    """What is needed from the broker."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def timers(self) -> Timers: ...


class WriteMarkers(CoordinatorRequest[Errors]):
    """The markers of one transaction for the partitions that one broker leads."""

    def __init__(
        self, writer: MarkerWriter, leader: int, marker: Marker, places: list[TopicPartition]
    ) -> None:
        self._writer = writer
        self._leader = leader
        self._marker = marker
        self._places = places

    def leader(self) -> int:
        return self._leader

    def answer_here(self, done: Done[Errors]) -> None:
        def write(place: TopicPartition, answer: Callable[[ErrorCode], None]) -> None:
            self._writer.write(place, self._marker, answer)

        ask_each(self._places, write, lambda errors: done(dict(zip(self._places, errors, strict=True))))

    def request(self) -> WriteTxnMarkersRequest:
        topics = groupby(sorted(self._places), key=lambda place: place.topic)
        marker = WritableTxnMarker(
            producer_id=self._marker.producer_id,
            producer_epoch=self._marker.producer_epoch,
            transaction_result=self._marker.committed,
            coordinator_epoch=self._marker.coordinator_epoch,
            transaction_version=self._marker.version,
            topics=[
                WritableTxnMarkerTopic(name=name, partition_indexes=[place.partition for place in group])
                for name, group in topics
            ],
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def read(self, response: WriteTxnMarkersResponse) -> Errors:
        return {
            TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }


class MarkerRound:
    """The markers of one transaction, until every partition has its own."""

    def __init__(
        self,
        host: Host,
        channel: Channel,
        writer: MarkerWriter,
        marker: Marker,
        partitions: Iterable[TopicPartition],
        is_wanted: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        self._host = host
        self._channel = channel
        self._writer = writer
        self._marker = marker
        self._open = set(partitions)
        self._is_wanted = is_wanted
        self._done = done
        self._unanswered = 0

    def run(self) -> None:
        """Ask every leader once; come back for the partitions that have failed."""
        leaders = {place: self._leader(place) for place in sorted(self._open)}
        by_leader: dict[int, list[TopicPartition]] = {}
        for place, leader in leaders.items():
            if leader is None:
                self._open.discard(place)
            else:
                by_leader.setdefault(leader, []).append(place)
        self._unanswered = len(by_leader) + 1  # one for ourselves: some answer at once
        for leader in sorted(by_leader):
            self._ask(leader, by_leader[leader])
        self._answered()

    def _leader(self, place: TopicPartition) -> int | None:
        """The leader of the partition; None when there is no such partition any more."""
        state = self._host.image.partition(*place)
        return state.leader if state is not None else None

    def _ask(self, leader: int, places: list[TopicPartition]) -> None:
        def answered(outcome: Errors | KafkaError) -> None:
            errors = dict.fromkeys(places, outcome.code) if isinstance(outcome, KafkaError) else outcome
            for place in places:
                self._settle(place, errors.get(place, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            self._answered()

        self._channel.ask(WriteMarkers(self._writer, leader, self._marker, places), answered)

    def _settle(self, place: TopicPartition, error: ErrorCode) -> None:
        if error in _SETTLED:
            self._open.discard(place)
        elif error == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            logger.warning("%s has heard from a newer transaction coordinator than this one", place)

    def _answered(self) -> None:
        self._unanswered -= 1
        if self._unanswered:
            return
        if not self._open:
            self._done()
        else:
            self._host.timers.call_later(RETRY.first_pause, self._retry)

    def _retry(self) -> None:
        if self._is_wanted():
            self.run()
