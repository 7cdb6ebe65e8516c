"""Markers for all partitions of a decided transaction (Kafka's TransactionMarkerChannelManager).

Each leader gets one WriteTxnMarkers for its partitions. Recoverable errors (no leader, a full disk) are
retried
until they pass, because read_committed consumers wait for the marker. A deleted partition needs no marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Timers
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.types import TopicPartition
from barnabas.coordination import Channel, CoordinatorRequest, Done, Retry, ask_each
from barnabas.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.transactions.markers import Marker, MarkerWriter

logger = rate_limited_logger(__name__)

RETRY = Retry(first_pause=0.1)

# The transaction has already ended in such a partition, or was never there.
_SETTLED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

Errors = dict[TopicPartition, ErrorCode]


class WriteMarkers(CoordinatorRequest[Errors]):
    """The markers of one transaction for the partitions of one leader."""

    def __init__(
        self, writer: MarkerWriter, leader: int, marker: Marker, partitions: list[TopicPartition]
    ) -> None:
        self._writer = writer
        self._leader = leader
        self._marker = marker
        self._partitions = partitions

    def leader(self) -> int:
        return self._leader

    def handle_locally(self, done: Done[Errors]) -> None:
        def write(tp: TopicPartition, answer: Callable[[ErrorCode], None]) -> None:
            self._writer.write(tp, self._marker, answer)

        ask_each(
            self._partitions, write, lambda errors: done(dict(zip(self._partitions, errors, strict=True)))
        )

    def request(self) -> WriteTxnMarkersRequest:
        topics = groupby(sorted(self._partitions), key=lambda tp: tp.topic)
        marker = WritableTxnMarker(
            producer_id=self._marker.producer_id,
            producer_epoch=self._marker.producer_epoch,
            transaction_result=self._marker.committed,
            coordinator_epoch=self._marker.coordinator_epoch,
            transaction_version=self._marker.version,
            topics=[
                WritableTxnMarkerTopic(name=name, partition_indexes=[tp.partition for tp in group])
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
    """The markers of one transaction, until every partition has one."""

    def __init__(
        self,
        channel: Channel,
        writer: MarkerWriter,
        timers: Timers,
        image: Callable[[], MetadataImage],
        marker: Marker,
        partitions: Iterable[TopicPartition],
        is_wanted: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        self._timers = timers
        self._image = image
        self._channel = channel
        self._writer = writer
        self._marker = marker
        self._open = set(partitions)
        self._is_wanted = is_wanted
        self._done = done
        self._unanswered = 0

    def run(self) -> None:
        """Send to every leader once; retry for the partitions that failed."""
        leaders = {tp: self._leader(tp) for tp in sorted(self._open)}
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp, leader in leaders.items():
            if leader is None:
                self._open.discard(tp)
            else:
                by_leader.setdefault(leader, []).append(tp)
        self._unanswered = len(by_leader) + 1  # one for this call: some respond synchronously
        for leader in sorted(by_leader):
            self._ask(leader, by_leader[leader])
        self._answered()

    def _leader(self, tp: TopicPartition) -> int | None:
        """The leader of the partition; None if the partition has been deleted."""
        state = self._image().partition(*tp)
        return state.leader if state is not None else None

    def _ask(self, leader: int, partitions: list[TopicPartition]) -> None:
        def answered(outcome: Errors | KafkaError) -> None:
            errors = dict.fromkeys(partitions, outcome.code) if isinstance(outcome, KafkaError) else outcome
            for tp in partitions:
                self._settle(tp, errors.get(tp, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            self._answered()

        self._channel.ask(WriteMarkers(self._writer, leader, self._marker, partitions), answered)

    def _settle(self, tp: TopicPartition, error: ErrorCode) -> None:
        if error in _SETTLED:
            self._open.discard(tp)
        elif error == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            logger.warning("%s was fenced by a newer transaction coordinator", tp)

    def _answered(self) -> None:
        self._unanswered -= 1
        if self._unanswered:
            return
        if not self._open:
            self._done()
        else:
            self._timers.call_later(RETRY.first_pause, self._retry)

    def _retry(self) -> None:
        if self._is_wanted():
            self.run()
