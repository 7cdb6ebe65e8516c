"""The batches of a transactional producer's request: which of them may be appended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

from barnabas.coordination.shard import ProducerIdAndEpoch
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.needs import HasConfig, HasReplicas
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest
from barnabas.records.batch import HEADER_SIZE, BatchHeader, read_header
from barnabas.replication.partition import Partition
from barnabas.transactions.admission import (
    LARGEST_SEQUENCE,
    AddPartitionsToTxnManager,
    TransactionVerification,
    Errors,
    Sender,
    for_producer,
    has_open,
    last_marker,
    sender_of_produce,
)
from barnabas.common.types import ZERO_UUID, TopicPartition


class Coordinators(Protocol):
    @property
    def admission(self) -> AddPartitionsToTxnManager: ...


class AdmissionNeeds(HasConfig, HasReplicas, Protocol):
    """What a transactional produce request needs from the broker."""

    @property
    def coordinators(self) -> Coordinators: ...


class Admission:
    """One request's question to the transaction coordinator, and its answer."""

    def __init__(
        self, broker: AdmissionNeeds, version: int, transactional_id: str, message: ProduceRequest
    ) -> None:
        self._broker = broker
        self._sender = sender_of_produce(version)
        self._transactional_id = transactional_id
        self._instance: ProducerIdAndEpoch | None = None
        self._markers: dict[TopicPartition, int] = {}
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
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a request with records of more than one producer"
            )
        self._instance = instance
        place = partition.topic_partition
        if not partition.is_writable:
            self._not_ours.add(place)
        elif not has_open(partition.log, instance):
            self._markers[place] = last_marker(partition.log, header.producer_id)
            self._sequences[place] = header.base_sequence

    # -- asking -------------------------------------------------------------------------------------

    def ask(self) -> None:
        if self._instance is None or not self._markers or not self._is_verifying:
            self._errors = {}
            return
        applicant = TransactionVerification(self._sender, self._transactional_id, self._instance)
        self._broker.coordinators.admission.ask(applicant, self._markers.keys(), self._answered)

    @property
    def _is_verifying(self) -> bool:
        """Verification can be switched off; adding partitions for transactions V2 cannot."""
        return self._sender is Sender.V2 or bool(
            self._broker.config["transaction.partition.verification.enable"]
        )

    def _answered(self, errors: Errors) -> None:
        self._errors = errors
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def is_decided(self) -> bool:
        return self._errors is not None

    async def decided(self) -> None:
        if self._errors is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def keep_records(self, message: ProduceRequest) -> None:
        """Copy the records out of the receive buffer, which is used again while we wait."""
        for topic in message.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = memoryview(bytearray(data.records))

    # -- the answer ---------------------------------------------------------------------------------

    def refusal(self, partition: Partition) -> KafkaError | None:
        """Why the batch for this partition must not be appended; None when it may."""
        place = partition.topic_partition
        if place in self._not_ours or not partition.is_writable:
            # The coordinator's answer does not matter, or cannot be had: the client must look for the leader.
            return partition.why_not_writable()
        if place not in self._markers or self._instance is None or self._errors is None:
            return None
        error = self._errors.get(place, ErrorCode.NONE)
        if error:
            self._broker.coordinators.admission.note_refusal(place, self._instance, self._sequences[place])
            return KafkaError(for_producer(error, self._sender), _explained(error))
        if last_marker(partition.log, self._instance.producer_id) != self._markers[place]:
            return KafkaError(
                ErrorCode.INVALID_TXN_STATE, "the transaction has ended while the batch was on its way"
            )
        return self._check_first(partition, place)

    def _check_first(self, partition: Partition, place: TopicPartition) -> KafkaError | None:
        """Is this the first batch that the partition may see of the producer, if it knows none?

        With transactions V2 every transaction has an epoch of its own, which begins with sequence 0. Before, a
        partition may have forgotten the producer, and only a batch that was refused tells what comes first.
        """
        assert self._instance is not None
        refused = self._broker.coordinators.admission.refused_sequences
        lowest = refused.pop((place, self._instance), LARGEST_SEQUENCE)
        if self._sender is Sender.V2:
            lowest = 0
        sequence = self._sequences[place]
        if sequence <= lowest or partition.log.producers.get(self._instance.producer_id) is not None:
            return None
        if self._sender is not Sender.V2:
            refused[place, self._instance] = lowest
        return KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {self._instance.producer_id} must begin with sequence {lowest}, not {sequence}",
        )


def transaction_of(message: ProduceRequest) -> tuple[str | None, ...]:
    """The transactional id that a request writes with: naming one without a transactional batch is no use of it."""
    if message.transactional_id is None:
        return ()
    partitions = (data for topic in message.topic_data for data in topic.partition_data)
    return (message.transactional_id,) if any(map(_transactional_header, partitions)) else ()


def _transactional_header(data: PartitionProduceData) -> BatchHeader | None:
    """The header of a batch that belongs to a transaction. What is no batch at all, the log refuses."""
    if data.records is None or len(data.records) < HEADER_SIZE:
        return None
    header = read_header(data.records)
    return header if header.has_producer and header.is_transactional else None


def _explained(error: ErrorCode) -> str:
    if error in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE):
        return "the partition is not part of the producer's transaction"
    return f"the transaction coordinator says {error.name}"
