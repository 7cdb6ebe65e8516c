"""Transaction markers in partitions that this broker leads: the control batch that ends a transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, TopicPartition
from barnabas.coordination import ProducerIdAndEpoch
from barnabas.log import Origin
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.records import EndTransactionMarker, end_transaction_marker
from barnabas.replication import ALL_REPLICAS, NO_EPOCH, Durability, Partition, ReplicaManager
from barnabas.transactions.transaction import V2

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
"""Writes a marker to a partition of `__consumer_offsets` and applies its pending offsets; from the group
coordinator.
"""


class Marker(NamedTuple):
    """The outcome of one producer's transaction, and the coordinator that decided it."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    version: int

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def ended_epoch(self) -> int:
        """Producer epoch of the transaction: markers of transactions V2 carry the next one."""
        return self.producer_epoch - 1 if self.version >= V2 else self.producer_epoch

    @property
    def ending(self) -> EndTransactionMarker:
        return EndTransactionMarker(self.committed, self.coordinator_epoch)


class MarkerWriter:
    def __init__(
        self,
        replicas: ReplicaManager,
        durability: Durability,
        clock: Clock,
        complete_offsets: CompleteOffsets,
    ) -> None:
        self._replicas = replicas
        self._durability = durability
        self._clock = clock
        self._complete_offsets = complete_offsets

    def write(self, tp: TopicPartition, marker: Marker, answer: Answer) -> None:
        """Append a marker to a led partition; answer when it is as durable as acks=all."""
        replicas = self._replicas
        partition = replicas.find(*tp)
        if partition is None:
            answer(replicas.why_missing(tp.topic, ZERO_UUID, tp.partition))
        elif partition.can_commit and not partition.is_writable:
            # It is now a mirror: the transaction's records were truncated, or its end comes from the source.
            answer(ErrorCode.NONE)
        elif not partition.is_writable:
            answer(partition.why_not_writable().code)
        else:
            self._write_once(partition, marker, answer)

    def _write_once(self, partition: Partition, marker: Marker, answer: Answer) -> None:
        try:
            is_repeated = _is_repeated(partition, marker)
        except KafkaError as error:
            answer(error.code)
            return
        if is_repeated:
            self._durability.when(partition, partition.log.log_end_offset, answer)
        else:
            with partition.log.producers.ending(marker.ended_epoch):
                self._write_next(partition, marker, answer)

    def _write_next(self, partition: Partition, marker: Marker, answer: Answer) -> None:
        if partition.topic == CONSUMER_OFFSETS:
            self._write_offsets(partition.index, marker, answer)
        else:
            self._append(partition, marker, answer)

    def _write_offsets(self, index: int, marker: Marker, answer: Answer) -> None:
        def done(result: KafkaError | None) -> None:
            code = result.code if result is not None else ErrorCode.NONE
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_HERE else code)

        self._complete_offsets(index, marker.producer, marker.ending, done)

    def _append(self, partition: Partition, marker: Marker, answer: Answer) -> None:
        now_ms = self._clock.now_ms()
        batch = end_transaction_marker(*marker.producer, marker.ending, timestamp=now_ms)
        try:
            result = partition.append(memoryview(batch), now_ms, ALL_REPLICAS, Origin.COORDINATOR)
        except KafkaError as error:
            answer(error.code)
            return
        self._durability.when(partition, result.last_offset + 1, answer)

    def refusal_of_client(self, tp: TopicPartition, marker: Marker) -> ErrorCode:
        """The error for a marker from a client instead of a broker; NONE if it may be written.

        Administrators end hanging transactions with markers. That requires aborting a transaction
        that is open in the
        partition, with the epochs that DescribeProducers shows. A later epoch would fence the
        producer, or the coordinator,
        permanently (decision 0021).
        """
        partition = self._replicas.find(*tp)
        if partition is None:
            return self._replicas.why_missing(tp.topic, ZERO_UUID, tp.partition)
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
    """True if this marker is already written; KafkaError if it belongs to a transaction that has ended
    (KIP-1228).

    Markers of transactions V2 carry the next epoch, which is also the epoch of the records, or pending
    offsets, of the next
    transaction: a delayed retry of a marker must not end that one. With V1 records and marker share an
    epoch, and a
    late marker cannot be recognised.
    """
    known = partition.log.producers.get(marker.producer_id)
    if marker.version < V2 or known is None or marker.producer_epoch > known.epoch:
        return False
    if marker.producer_epoch == known.epoch and known.transaction_start is None:
        return True
    raise KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"a marker of epoch {marker.producer_epoch} for producer {marker.producer_id}, whose epoch is {known.epoch}",
    )
