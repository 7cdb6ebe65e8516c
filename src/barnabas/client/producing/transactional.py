"""Transactions whose parts are in several processes: one writes, another one ends them (a sink's tasks and its driver).

Everything here is transactions V1: AddPartitionsToTxn by the client, Produce below version 12, EndTxn below version 5.
With V1 the end of a transaction leaves its epoch alone. So (transactional id, producer id, epoch) names one transaction
until the id is initialized again: EndTxn may be repeated by any process that knows the three, and DescribeTransactions
says what became of it. With V2 every end raises the epoch, and an abort by timeout looks like a commit from outside:
both leave the next epoch and a complete transaction.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, TypeVar

from barnabas.client.cluster import Client, raise_for
from barnabas.client.producing.producer_ids import ProducerIdAndEpoch
from barnabas.client.retry import RetryPolicy, retry
from barnabas.client.transactions import TRANSACTION, list_transactions
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    DescribeTransactionsTransactionState,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.schema import Message
from barnabas.common.types import TopicPartition

T = TypeVar("T")

LAST_V1_ADD, LAST_V1_END = 3, 4  # and batch_sender.LAST_V1_PRODUCE
FIRST_WITHOUT_TIMEOUT = 6  # of InitProducerId: KIP-939
USUAL_LONGEST_TIMEOUT_MS = 900_000  # Kafka's default of transaction.max.timeout.ms

# This instance of the producer is not the latest one, or its transaction was ended for it.
FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
_COORDINATOR_MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


class Transactions:
    """Requests to the coordinators of transactional ids, patient with brokers that are away for a while."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._coordinators: dict[str, int] = {}

    async def initialize(
        self,
        transactional_id: str,
        timeout_ms: int = USUAL_LONGEST_TIMEOUT_MS,
        *,
        without_timeout: bool = False,
    ) -> ProducerIdAndEpoch:
        """Take an id: aborts what is open under it, and shuts out who had it.

        `without_timeout` is KIP-939's flag for transactions that another process will end; a broker that does not know
        it, as Apache Kafka 4.3, gives `timeout_ms`.
        """

        async def attempt(coordinator: int) -> ProducerIdAndEpoch:
            connection = await self.client.connection_to(coordinator)
            version = connection.version_for(InitProducerIdRequest)
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            request.enable2_pc = without_timeout and version >= FIRST_WITHOUT_TIMEOUT
            response: InitProducerIdResponse = await connection.send(
                request, version, self.client.request_timeout
            )
            raise_for(
                response.error_code, f"no producer id for {transactional_id}{_explained(response.error_code)}"
            )
            return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

        return await self._coordinated(transactional_id, attempt)

    async def add_partitions(
        self, transactional_id: str, identity: ProducerIdAndEpoch, places: Iterable[TopicPartition]
    ) -> None:
        topics = [
            AddPartitionsToTxnTopic(name=topic, partitions=[place.partition for place in group])
            for topic, group in groupby(sorted(places), key=lambda place: place.topic)
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=topics,
        )

        async def attempt(coordinator: int) -> None:
            response = await self._send(coordinator, request, LAST_V1_ADD)
            codes = [
                partition.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for partition in topic.results_by_partition
            ]
            worst = [code for code in codes if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED] or codes
            code = worst[0] if worst else 0
            raise_for(
                code, f"partitions could not join the transaction of {transactional_id}{_explained(code)}"
            )

        await self._coordinated(transactional_id, attempt)

    async def end(self, transactional_id: str, identity: ProducerIdAndEpoch, *, committed: bool) -> None:
        """May be repeated. A KafkaError of FENCED: it is not this instance's to end any more."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=committed,
        )

        async def attempt(coordinator: int) -> None:
            response = await self._send(coordinator, request, LAST_V1_END)
            raise_for(response.error_code, f"the transaction of {transactional_id} could not be ended")

        await self._coordinated(transactional_id, attempt)

    async def describe(
        self, transactional_ids: Sequence[str]
    ) -> dict[str, DescribeTransactionsTransactionState]:
        """What the coordinators know, one request to each of them; ids that they have forgotten are left out."""

        async def attempt() -> dict[str, DescribeTransactionsTransactionState]:
            await self._find(transactional_ids)
            by_coordinator = defaultdict(list)
            for name in transactional_ids:
                by_coordinator[self._coordinators[name]].append(name)
            answers = await asyncio.gather(
                *(
                    self.client.send_to_broker(broker, DescribeTransactionsRequest(transactional_ids=names))
                    for broker, names in by_coordinator.items()
                )
            )
            states = [state for answer in answers for state in answer.transaction_states]
            for state in states:
                if state.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise_for(state.error_code, state.transactional_id)
            return {state.transactional_id: state for state in states if not state.error_code}

        return await self._retry(transactional_ids, attempt)

    async def ongoing(self) -> list[str]:
        """The ids of all open transactions that this client may see."""

        async def attempt() -> list[str]:
            found = await list_transactions(self.client, ["Ongoing"])
            return [state.transactional_id for _, state in found]

        return await self._retry((), attempt)

    async def _coordinated(self, transactional_id: str, attempt: Callable[[int], Awaitable[T]]) -> T:
        async def find_and_attempt() -> T:
            await self._find([transactional_id])
            return await attempt(self._coordinators[transactional_id])

        return await self._retry([transactional_id], find_and_attempt)

    async def _retry(self, names: Iterable[str], attempt: Callable[[], Awaitable[T]]) -> T:
        async def forget(error: Exception) -> None:
            if not isinstance(error, KafkaError) or error.code in _COORDINATOR_MOVED:
                for name in names:
                    self._coordinators.pop(name, None)

        return await retry(attempt, RetryPolicy(self.client.total_timeout), forget)

    async def _find(self, names: Iterable[str]) -> None:
        unknown = [name for name in names if name not in self._coordinators]
        if not unknown:
            return
        request = FindCoordinatorRequest(coordinator_keys=unknown, key_type=TRANSACTION)
        for found in (await self.client.send_to_any(request)).coordinators:
            raise_for(found.error_code, found.error_message or found.key)
            self._coordinators[found.key] = found.node_id

    async def _send(self, coordinator: int, message: Message, last_version: int) -> Any:
        connection = await self.client.connection_to(coordinator)
        version = min(connection.version_for(type(message)), last_version)
        return await connection.send(message, version, self.client.request_timeout)


def _explained(code: int) -> str:
    """What the answer has no room for."""
    if code != ErrorCode.POLICY_VIOLATION:
        return ""
    return (
        ": the broker keeps as many open transactions as it may. End those that nobody will end (barnabas "
        "transactions list --state Ongoing, barnabas transactions abort ID), or raise the limit that its log names"
    )
