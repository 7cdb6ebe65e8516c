"""Requests to the coordinators of transactional ids.

*Transactions V1*: AddPartitionsToTxn by the client, Produce below version 12, EndTxn below version 5. The end of a
transaction leaves its epoch alone, so (transactional id, producer id, epoch) names one transaction until the id is
initialized again: any process that knows the three may repeat EndTxn, and DescribeTransactions reports the
result. Sink tasks need that: one process writes, another one ends the transaction. But a delayed request that was
resent may arrive during the next transaction of the same epoch.

*Transactions V2* (KIP-890): Produce 12 adds its partition, and EndTxn 5 raises the epoch, so that nothing late touches
the next transaction. From outside, an abort by timeout looks like a commit: both leave the next epoch and a complete
transaction. V2 is for producers that end their own transactions, where `transaction.version` is finalized at 2.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, TypeVar

from barnabas.client.cluster import Client, raise_for
from barnabas.client.connection import BrokerConnection
from barnabas.client.errors import ClientError, may_arrive_late
from barnabas.client.producing.producer_ids import ProducerIdentity
from barnabas.client.retry import RetryPolicy, retry
from barnabas.client.transactions import TRANSACTION, list_transactions
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    DescribeTransactionsTransactionState,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.schema import Message

T = TypeVar("T")

LAST_V1_ADD, LAST_V1_END = 3, 4  # and batch_sender.LAST_V1_PRODUCE
TRANSACTION_VERSION = "transaction.version"  # the feature
V2_LEVEL = 2
FIRST_V2_PRODUCE, FIRST_V2_END = 12, 5
FIRST_WITH_EPOCH = 3  # of InitProducerId: KIP-360
FIRST_WITHOUT_TIMEOUT = 6  # of InitProducerId: KIP-939
DEFAULT_MAX_TIMEOUT_MS = 900_000  # Kafka's default of transaction.max.timeout.ms

# This producer was fenced, or its transaction was ended by the coordinator.
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


class TransactionRequests:
    """Requests to transaction coordinators, with retries while brokers are unavailable."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._coordinators: dict[str, int] = {}
        self._unanswered: set[str] = set()

    async def initialize(
        self,
        transactional_id: str,
        timeout_ms: int = DEFAULT_MAX_TIMEOUT_MS,
        *,
        without_timeout: bool = False,
    ) -> ProducerIdentity:
        """Initialize an id: aborts its open transaction and fences the previous producer.

        `without_timeout` is KIP-939's flag for transactions that another process will end; a broker that does not know
        it, as Apache Kafka 4.3, gives `timeout_ms`.
        """

        async def attempt(coordinator: int) -> ProducerIdentity:
            connection = await self.client.connection_to(coordinator)
            has_flag = connection.version_for(InitProducerIdRequest) >= FIRST_WITHOUT_TIMEOUT
            request = InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                enable2_pc=without_timeout and has_flag,
            )
            return await self._init_producer_id(connection, request)

        identity = await self._coordinated(transactional_id, attempt)
        self._unanswered.discard(transactional_id)
        return identity

    async def initialize_own(self, transactional_id: str, timeout_ms: int) -> tuple[ProducerIdentity, bool]:
        """Initialize an id for transactions that this process ends; also returns whether they are V2."""

        async def attempt(coordinator: int) -> tuple[ProducerIdentity, bool]:
            connection = await self.client.connection_to(coordinator)
            await connection.negotiate()
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            return await self._init_producer_id(connection, request), _has_v2(connection)

        taken = await self._coordinated(transactional_id, attempt)
        self._unanswered.discard(transactional_id)
        return taken

    async def raise_epoch(
        self, transactional_id: str, timeout_ms: int, identity: ProducerIdentity
    ) -> ProducerIdentity:
        """Bump the epoch of this producer (KIP-360); KafkaError (FENCED) if another one has the id."""

        async def attempt(coordinator: int) -> ProducerIdentity:
            connection = await self.client.connection_to(coordinator)
            if connection.version_for(InitProducerIdRequest) < FIRST_WITH_EPOCH:
                raise KafkaError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"a request of {transactional_id} got no response and may still arrive: initialize the id again",
                )
            request = InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
            )
            return await self._init_producer_id(connection, request)

        raised = await self._coordinated(transactional_id, attempt)
        self._unanswered.discard(transactional_id)
        return raised

    async def _init_producer_id(
        self, connection: BrokerConnection, request: InitProducerIdRequest
    ) -> ProducerIdentity:
        response: InitProducerIdResponse = await connection.send(request, None, self.client.request_timeout)
        explained = _explained(response.error_code)
        raise_for(response.error_code, f"no producer id for {request.transactional_id}{explained}")
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    # -- requests without an answer -----------------------------------------------------------------

    def is_unaccounted(self, transactional_id: str) -> bool:
        """True if a request since the last initialization got no response and may still arrive."""
        return transactional_id in self._unanswered

    def note_unanswered(self, transactional_id: str) -> None:
        self._unanswered.add(transactional_id)

    # -- a transaction ------------------------------------------------------------------------------

    async def add_partitions(
        self, transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
    ) -> None:
        topics = [
            AddPartitionsToTxnTopic(name=topic, partitions=[tp.partition for tp in group])
            for topic, group in groupby(sorted(partitions), key=lambda tp: tp.topic)
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

    async def add_offsets(self, transactional_id: str, identity: ProducerIdentity, group: str) -> None:
        """Add a group's offsets to a transaction V1."""
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group,
        )

        async def attempt(coordinator: int) -> None:
            response = await self.client.send_to_broker(coordinator, request)
            raise_for(
                response.error_code, f"group {group} could not join the transaction of {transactional_id}"
            )

        await self._coordinated(transactional_id, attempt)

    async def end(
        self, transactional_id: str, identity: ProducerIdentity, *, committed: bool, is_v2: bool = False
    ) -> ProducerIdentity:
        """End the transaction; returns the next producer id and epoch: the same with V1, another with V2.

        Idempotent. KafkaError (FENCED) if this producer was fenced.
        """
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=committed,
        )

        async def attempt(coordinator: int) -> ProducerIdentity:
            response = await self._send(coordinator, request, FIRST_V2_END if is_v2 else LAST_V1_END)
            raise_for(response.error_code, f"the transaction of {transactional_id} could not be ended")
            if not is_v2:
                return identity
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        return await self._coordinated(transactional_id, attempt)

    async def describe(
        self, transactional_ids: Sequence[str]
    ) -> dict[str, DescribeTransactionsTransactionState]:
        """Describe ids with one request per coordinator; unknown ids are left out."""

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
        """Ids of all ongoing transactions visible to this client."""

        async def attempt() -> list[str]:
            found = await list_transactions(self.client, ["Ongoing"])
            return [state.transactional_id for _, state in found]

        return await self._retry((), attempt)

    async def _coordinated(self, transactional_id: str, attempt: Callable[[int], Awaitable[T]]) -> T:
        async def find_and_attempt() -> T:
            await self._find([transactional_id])
            try:
                return await attempt(self._coordinators[transactional_id])
            except ClientError as error:
                if may_arrive_late(error):
                    self.note_unanswered(transactional_id)
                raise

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


def _has_v2(connection: BrokerConnection) -> bool:
    """Check the finalized feature: Kafka 4 lists EndTxn 5 even if transaction.version is lower."""
    return (
        connection.features.get(TRANSACTION_VERSION, 0) >= V2_LEVEL
        and connection.version_for(EndTxnRequest) >= FIRST_V2_END
        and connection.version_for(ProduceRequest) >= FIRST_V2_PRODUCE
    )


def _explained(code: int) -> str:
    """Explanation of errors whose response has no message field."""
    if code != ErrorCode.POLICY_VIOLATION:
        return ""
    return (
        ": the broker's limit of open transactions is reached. Abort abandoned ones (barnabas "
        "transactions list --state Ongoing, barnabas transactions abort ID), or raise the limit that its log names"
    )
