"""Administration of transactions: list, describe, fence, find and abort hanging ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from barnabas.client.cluster import Client, raise_for
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsTransactionState,
    InitProducerIdRequest,
    ListTransactionsRequest,
    ListTransactionsTransactionState,
    ProducerState,
    TopicRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TRANSACTION = 1  # the key type of FindCoordinator
OPEN_STATES = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
NO_TIMEOUT_MS = 0x7FFFFFFF  # of a transaction that another process ends (KIP-939)
DESCRIBED_AT_ONCE = 500
MIN_TIMEOUT_MS = 1  # the fencing instance is never used


async def list_transactions(
    client: Client,
    states: Sequence[str] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
    producer_ids: Iterable[int] = (),
) -> list[tuple[int, ListTransactionsTransactionState]]:
    """(coordinator, transactional id) of all brokers; a KafkaError when one cannot answer."""
    metadata = await client.refresh([])
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    found = []
    for broker_id in sorted(metadata.brokers):
        response = await client.send_to_broker(broker_id, request)
        raise_for(response.error_code)
        found += [(broker_id, state) for state in response.transaction_states]
    return found


async def describe_open(
    client: Client, found: Sequence[tuple[int, ListTransactionsTransactionState]]
) -> dict[str, DescribeTransactionsTransactionState]:
    """Descriptions of the listed transactions that are open: start time and timeout."""
    known: dict[str, DescribeTransactionsTransactionState] = {}
    for coordinator in sorted({broker_id for broker_id, _ in found}):
        names = [
            one.transactional_id
            for broker_id, one in found
            if broker_id == coordinator and one.transaction_state in OPEN_STATES
        ]
        for start in range(0, len(names), DESCRIBED_AT_ONCE):
            request = DescribeTransactionsRequest(transactional_ids=names[start : start + DESCRIBED_AT_ONCE])
            response = await client.send_to_broker(coordinator, request)
            known |= {one.transactional_id: one for one in response.transaction_states if not one.error_code}
    return known


async def describe_transaction(
    client: Client, transactional_id: str
) -> tuple[int, DescribeTransactionsTransactionState]:
    """Coordinator and state of an id; TRANSACTIONAL_ID_NOT_FOUND if it is unknown."""

    async def attempt() -> tuple[int, DescribeTransactionsTransactionState]:
        coordinator = await find_coordinator(client, transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        state = (await client.send_to_broker(coordinator, request)).transaction_states[0]
        raise_for(state.error_code, transactional_id)
        return coordinator, state

    found: tuple[int, DescribeTransactionsTransactionState] = await client.retry(attempt)
    return found


async def find_coordinator(client: Client, transactional_id: str) -> int:
    request = FindCoordinatorRequest(coordinator_keys=[transactional_id], key_type=TRANSACTION)
    found = (await client.send_to_any(request)).coordinators[0]
    raise_for(found.error_code, found.error_message or transactional_id)
    return int(found.node_id)


async def fence(client: Client, transactional_id: str) -> None:
    """Abort the open transaction of an id and fence its producer, as a new instance would."""

    async def attempt() -> Any:
        coordinator = await find_coordinator(client, transactional_id)
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=MIN_TIMEOUT_MS
        )
        response = await client.send_to_broker(coordinator, request)
        raise_for(response.error_code, transactional_id)

    await client.retry(attempt)


async def describe_producers(client: Client, partition: TopicPartition) -> list[ProducerState]:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=partition.topic, partition_indexes=[partition.partition])]
    )

    def error_of(response: DescribeProducersResponse) -> int:
        return response.topics[0].partitions[0].error_code

    response: DescribeProducersResponse = await client.send_to_leader(partition, request, error_of)
    return response.topics[0].partitions[0].active_producers


async def producers_of(
    client: Client, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ProducerState]]:
    """Active producers of many partitions, batched by leader. Failed partitions are left out."""
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for tp in partitions:
        by_leader[await client.leader(tp)].append(tp)
    found: dict[TopicPartition, list[ProducerState]] = {}
    for leader, leader_partitions in by_leader.items():
        for start in range(0, len(leader_partitions), DESCRIBED_AT_ONCE):
            request = _producers_request(leader_partitions[start : start + DESCRIBED_AT_ONCE])
            response: DescribeProducersResponse = await client.send_to_broker(leader, request)
            found |= {
                TopicPartition(topic.name, answer.partition_index): answer.active_producers
                for topic in response.topics
                for answer in topic.partitions
                if not answer.error_code
            }
    return found


def _producers_request(partitions: Sequence[TopicPartition]) -> DescribeProducersRequest:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, index in partitions:
        topics[topic].append(index)
    return DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    )


async def find_hanging(
    client: Client, partitions: Iterable[TopicPartition], older_than_ms: int, now_ms: int
) -> list[tuple[TopicPartition, ProducerState]]:
    """Hanging transactions: open in a partition and unknown to their coordinator, so no timeout ends them.

    They block read_committed consumers. Same as `kafka-transactions find-hanging`.
    """
    candidates = open_longer_than(await producers_of(client, partitions), older_than_ms, now_ms)
    if not candidates:
        return []
    ids = sorted({producer.producer_id for _, producer in candidates})
    states = await describe_open(client, await list_transactions(client, producer_ids=ids))
    known = {
        (state.producer_id, TopicPartition(topic.topic, index))
        for state in states.values()
        for topic in state.topics
        for index in topic.partitions
    }
    return [(tp, producer) for tp, producer in candidates if (producer.producer_id, tp) not in known]


def open_longer_than(
    producers: Mapping[TopicPartition, Iterable[ProducerState]], older_than_ms: int, now_ms: int
) -> list[tuple[TopicPartition, ProducerState]]:
    """Producers with an open transaction and no write for this long."""
    return [
        (tp, producer)
        for tp, found in sorted(producers.items())
        for producer in found
        if producer.current_txn_start_offset >= 0 and now_ms - producer.last_timestamp >= older_than_ms
    ]


async def abort_hanging(client: Client, partition: TopicPartition, start_offset: int) -> ProducerState:
    """Write the abort marker for the hanging transaction that begins at an offset."""
    hanging = [
        producer
        for producer in await describe_producers(client, partition)
        if producer.current_txn_start_offset == start_offset
    ]
    if not hanging:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"no transaction is open in {partition} that begins at {start_offset}",
        )
    producer = hanging[0]
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        coordinator_epoch=max(producer.coordinator_epoch, 0),
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
    )

    def error_of(response: WriteTxnMarkersResponse) -> int:
        return response.markers[0].topics[0].partitions[0].error_code

    await client.send_to_leader(partition, WriteTxnMarkersRequest(markers=[marker]), error_of)
    return producer
