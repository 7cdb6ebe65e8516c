"""Transaction markers in partitions that this broker leads: the control batch that ends a transaction there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from barnabas.common.clock import Clock
from barnabas.coordination.shard import ProducerIdAndEpoch
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log.log import Origin
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.replication.manager import ReplicaManager
from barnabas.replication.partition import ALL_REPLICAS, NO_EPOCH, Partition
from barnabas.replication.safety import Durability
from barnabas.transactions.transaction import V2
from barnabas.common.types import ZERO_UUID, TopicPartition

_NOT_HERE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)

Answer = Callable[[ErrorCode], None]
CompleteOffsets = Callable[
    [int, ProducerIdAndEpoch, EndTransactionMarker, Callable[[KafkaError | None], None]], None
]
"""The group coordinator's: write a marker to a partition of `__consumer_offsets`, and let its pending offsets count."""


class Marker(NamedTuple):
    """How one producer's transaction ended, and which coordinator says so."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    version: int

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def ending(self) -> EndTransactionMarker:
        return EndTransactionMarker(self.committed, self.coordinator_epoch)


class Host(Protocol):
    """What is needed from the broker."""

    @property
    def clock(self) -> Clock: ...

    @property
    def replicas(self) -> ReplicaManager: ...

    @property
    def safety(self) -> Durability: ...


class MarkerWriter:
    def __init__(self, host: Host, complete_offsets: CompleteOffsets) -> None:
        self._host = host
        self._complete_offsets = complete_offsets

    def write(self, place: TopicPartition, marker: Marker, answer: Answer) -> None:
        """Append a marker to a partition of ours; answer when it is as safe as acks=all."""
        replicas = self._host.replicas
        partition = replicas.find(*place)
        if partition is None:
            answer(replicas.why_missing(place.topic, ZERO_UUID, place.partition))
        elif partition.can_commit and not partition.is_writable:
            # It has become a mirror: the transaction's records were cut, or its end comes from the source.
            answer(ErrorCode.NONE)
        elif place.topic == CONSUMER_OFFSETS:
            self._write_offsets(place.partition, marker, answer)
        else:
            self._append(partition, marker, answer)

    def _write_offsets(self, index: int, marker: Marker, answer: Answer) -> None:
        def done(result: KafkaError | None) -> None:
            code = result.code if result is not None else ErrorCode.NONE
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_HERE else code)

        self._complete_offsets(index, marker.producer, marker.ending, done)

    def _append(self, partition: Partition, marker: Marker, answer: Answer) -> None:
        try:
            end = partition.log.log_end_offset
            if not _is_repeated(partition, marker):
                now_ms = self._host.clock.now_ms()
                batch = end_transaction_marker(*marker.producer, marker.ending, timestamp=now_ms)
                result = partition.append(memoryview(batch), now_ms, ALL_REPLICAS, Origin.COORDINATOR)
                end = result.last_offset + 1
        except KafkaError as error:
            answer(error.code)
            return
        self._host.safety.when_safe(partition, end, answer)

    def refusal_of_client(self, place: TopicPartition, marker: Marker) -> ErrorCode:
        """Why a marker that no broker has sent is not written; NONE if it is.

        Administrators end hanging transactions with markers. For that it is enough to abort a transaction that is open
        in the partition, with the epochs that DescribeProducers shows. A later epoch would fence the producer, or the
        coordinator, for good (decision 0021).
        """
        partition = self._host.replicas.find(*place)
        if partition is None:
            return self._host.replicas.why_missing(place.topic, ZERO_UUID, place.partition)
        if problem := partition.leadership_error(NO_EPOCH):
            return problem
        if not partition.is_writable:
            return ErrorCode.POLICY_VIOLATION  # a mirror
        known = partition.log.producers.get(marker.producer_id)
        if known is None or known.transaction_start is None:
            return ErrorCode.INVALID_TXN_STATE
        if marker.producer_epoch != known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.committed or marker.coordinator_epoch > max(known.coordinator_epoch, 0):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ErrorCode.NONE


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
