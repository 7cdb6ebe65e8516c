"""Admission of the batches of a transactional producer's request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, TopicPartition
from barnabas.coordination import ProducerIdAndEpoch
from barnabas.handlers.needs import HasConfig, HasReplicas
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest
from barnabas.records.batch import HEADER_SIZE, BatchHeader, read_header
from barnabas.replication import Partition
from barnabas.transactions import (
    MAX_SEQUENCE,
    AddPartitionsToTxnManager,
    ClientVersion,
    Errors,
    TransactionVerification,
    ended_previous,
    for_producer,
    has_ended,
    has_open,
    last_end,
    sender_of_produce,
)


class AdmissionCoordinators(Protocol):
    @property
    def admission(self) -> AddPartitionsToTxnManager: ...


class AdmissionNeeds(HasConfig, HasReplicas, Protocol):
    """Broker attributes used by transactional produce requests."""

    @property
    def coordinators(self) -> AdmissionCoordinators: ...


class Admission:
    """Verification of one request by the transaction coordinator."""

    def __init__(
        self, broker: AdmissionNeeds, version: int, transactional_id: str, message: ProduceRequest
    ) -> None:
        self._broker = broker
        self._sender = sender_of_produce(version)
        self._transactional_id = transactional_id
        self._instance: ProducerIdAndEpoch | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._not_ours: set[TopicPartition] = set()
        self._errors: Errors | None = None
        self._waiter: asyncio.Future[None] | None = None
        for partition, data in self._partitions(message):
            header = _transactional_header(data)
            if header is not None:
                self._note(partition, header)

    def _partitions(self, message: ProduceRequest) -> Iterator[tuple[Partition, PartitionProduceData]]:
        replicas = self._broker.replicas
        for topic in message.topic_data:
            by_id = topic.topic_id != ZERO_UUID
            found = replicas.by_id.get(topic.topic_id) if by_id else replicas.by_name.get(topic.name)
            for data in topic.partition_data:
                if found is not None and (partition := found.get(data.index)) is not None:
                    yield partition, data

    def _note(self, partition: Partition, header: BatchHeader) -> None:
        instance = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        if self._instance not in (None, instance):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "a request must not have records of more than one producer",
            )
        self._instance = instance
        tp = partition.topic_partition
        if not partition.is_writable:
            self._not_ours.add(tp)
        elif not has_open(partition.log, instance):
            self._ends[tp] = last_end(partition.log, header.producer_id)
            self._sequences[tp] = header.base_sequence

    # -- asking -------------------------------------------------------------------------------------

    def ask(self) -> None:
        if self._instance is None or not self._ends or not self._is_verifying:
            self._errors = {}
            return
        applicant = TransactionVerification(self._sender, self._transactional_id, self._instance)
        self._broker.coordinators.admission.ask(applicant, self._ends.keys(), self._answered)

    @property
    def _is_verifying(self) -> bool:
        """Verification can be disabled; adding partitions for transactions V2 cannot."""
        return self._sender is ClientVersion.V2 or bool(
            self._broker.config["transaction.partition.verification.enable"]
        )

    def _answered(self, errors: Errors) -> None:
        if self._renew_ends():
            self.ask()
            return
        self._errors = errors
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _renew_ends(self) -> bool:
        """Record where the previous transaction has ended since the request to the coordinator; return
        whether any has.

        The coordinator's response may be older than that end.
        """
        assert self._instance is not None
        found = ((tp, self._broker.replicas.find(*tp)) for tp in self._ends)
        renewed = {
            tp: last_end(partition.log, self._instance.producer_id)
            for tp, partition in found
            if partition is not None and ended_previous(self._ends[tp], partition.log, self._instance)
        }
        self._ends |= renewed
        return bool(renewed)

    @property
    def is_decided(self) -> bool:
        return self._errors is not None

    async def decided(self) -> None:
        if self._errors is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def keep_records(self, message: ProduceRequest) -> None:
        """Copy the records out of the receive buffer, which is reused meanwhile."""
        for topic in message.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = memoryview(bytearray(data.records))

    # -- the decision --------------------------------------------------------------------------------

    def refusal(self, partition: Partition) -> KafkaError | None:
        """Return the error for the batch of this partition; None if it may be appended."""
        tp = partition.topic_partition
        if tp in self._not_ours or not partition.is_writable:
            # The coordinator's response is irrelevant or unavailable: the client must find the leader.
            return partition.why_not_writable()
        if tp not in self._ends or self._instance is None or self._errors is None:
            return None
        error = self._errors.get(tp, ErrorCode.NONE)
        if error:
            self._broker.coordinators.admission.note_refusal(tp, self._instance, self._sequences[tp])
            return KafkaError(for_producer(error, self._sender), _explained(error))
        if has_ended(self._ends[tp], partition.log, self._instance):
            return KafkaError(
                ErrorCode.INVALID_TXN_STATE, "the transaction ended while the batch was in flight"
            )
        return self._check_first(partition, tp)

    def _check_first(self, partition: Partition, tp: TopicPartition) -> KafkaError | None:
        """Check that the batch is the first of the producer that an unaware partition may accept.

        With transactions V2 every transaction has its own epoch, which begins with sequence 0. Before, a
        partition may have lost the producer state, and only a refused batch shows which sequence comes first.
        """
        assert self._instance is not None
        refused = self._broker.coordinators.admission.refused_sequences
        lowest = refused.pop((tp, self._instance), MAX_SEQUENCE)
        if self._sender is ClientVersion.V2:
            lowest = 0
        sequence = self._sequences[tp]
        if sequence <= lowest or partition.log.producers.get(self._instance.producer_id) is not None:
            return None
        if self._sender is not ClientVersion.V2:
            refused[tp, self._instance] = lowest
        return KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {self._instance.producer_id} must start with sequence {lowest}, not {sequence}",
        )


def transaction_of(message: ProduceRequest) -> tuple[str | None, ...]:
    """Return the transactional id that a request uses: naming one without a transactional batch does not
    count.
    """
    if message.transactional_id is None:
        return ()
    partitions = (data for topic in message.topic_data for data in topic.partition_data)
    return (message.transactional_id,) if any(map(_transactional_header, partitions)) else ()


def _transactional_header(data: PartitionProduceData) -> BatchHeader | None:
    """Return the header of a transactional batch. The log rejects malformed batches."""
    if data.records is None or len(data.records) < HEADER_SIZE:
        return None
    header = read_header(data.records)
    return header if header.has_producer and header.is_transactional else None


def _explained(error: ErrorCode) -> str:
    if error in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE):
        return "the partition is not part of the producer's transaction"
    return f"the transaction coordinator returned {error.name}"
