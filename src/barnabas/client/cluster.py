"""A client of a whole cluster: one connection to each broker, requests to the leaders."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from barnabas.client.addresses import Address, parse_addresses
from barnabas.client.connection import REQUEST_TIMEOUT, BrokerConnection
from barnabas.client.errors import CannotConnectError, ClientError, error_code
from barnabas.client.metadata import ClusterMetadata, TopicMetadata, explain_topic_error, from_response
from barnabas.client.retry import RetryPolicy, retry
from barnabas.client.security.guard import Guard
from barnabas.client.security.settings import PLAINTEXT, ClientSecurity
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Backoff, Deadline
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.schema import Message

T = TypeVar("T")

CREATION_TIMEOUT = 5.0  # auto-created topics are unknown until the creation completes
TOTAL_TIMEOUT = 60.0  # Kafka's default.api.timeout.ms: all attempts of one call together


class AsyncClosable(ABC):
    """For `async with`: closed at the end."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None: ...


class Client(AsyncClosable):
    """Routes requests to the right broker. All methods belong to one event loop."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "barnabas",
        request_timeout: float = REQUEST_TIMEOUT,
        total_timeout: float = TOTAL_TIMEOUT,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self.client_id = client_id
        self.request_timeout = request_timeout
        self.total_timeout = total_timeout
        self.metadata = ClusterMetadata()
        self.bootstrap = bootstrap
        self.security = security
        self._bootstrap = parse_addresses(bootstrap)
        self._guard = Guard(security)
        self._connections: dict[Address, BrokerConnection] = {}
        self._connecting: dict[Address, asyncio.Lock] = {}

    async def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        await asyncio.sleep(0)  # lets the transports close their sockets

    async def send_to_any(self, message: Message, timeout_seconds: float | None = None) -> Any:
        """Send to a connected broker, else to the first that answers."""
        connection = await self.any_connection()
        return await connection.send(message, timeout_seconds=timeout_seconds or self.request_timeout)

    async def send_to_broker(
        self, broker_id: int, message: Message, timeout_seconds: float | None = None
    ) -> Any:
        connection = await self.connection_to(broker_id)
        return await connection.send(message, timeout_seconds=timeout_seconds or self.request_timeout)

    async def send_to_controller(self, message: Message) -> Any:
        """Requests that change metadata; a Kafka broker that is not the controller forwards them."""
        if self.metadata.controller_id not in self.metadata.brokers:
            await self.refresh([])
        if self.metadata.controller_id not in self.metadata.brokers:
            return await self.send_to_any(message)
        return await self.send_to_broker(self.metadata.controller_id, message)

    async def send_to_leader(
        self,
        partition: TopicPartition,
        message: Message,
        error_of: Callable[[Any], int] = lambda response: 0,
    ) -> Any:
        """Try until the leader has answered; `error_of` finds the partition's error in the response."""

        async def attempt() -> Any:
            leader = await self.leader(partition)
            response = await self.send_to_broker(leader, message)
            raise_for(error_of(response), str(partition))
            return response

        return await self.retry(attempt, topics=[partition.topic])

    async def retry(self, attempt: Callable[[], Awaitable[T]], topics: Iterable[str] = ()) -> T:
        """Call until it succeeds, with fresh metadata after each retriable failure."""

        async def recover(error: Exception) -> None:
            if isinstance(error, CannotConnectError):
                # One broker disconnected. Another one knows the new leader; if none answers, stop retrying.
                await self.refresh(topics)
            else:
                await self.refresh_quietly(topics)

        return await retry(attempt, RetryPolicy(self.total_timeout), recover)

    async def leader(self, partition: TopicPartition) -> int:
        """The id of the partition's leader; KafkaError when the topic, partition or leader is missing."""
        if partition.topic not in self.metadata.topics:
            await self.topics([partition.topic])
        found = self.metadata.partition(partition)
        if found.leader < 0:
            text = f"{partition} has no leader: the brokers {list(found.replicas)} that hold it are down"
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, text)
        return found.leader

    async def topics(self, names: Iterable[str], *, create: bool = False) -> dict[str, TopicMetadata]:
        """Fresh metadata of these topics; retries for a topic that was just created."""
        wanted = list(names)
        deadline, backoff = Deadline(min(self.total_timeout, CREATION_TIMEOUT)), Backoff()
        while True:
            found = (await self.refresh(wanted, create=create)).topics
            unready = [name for name in wanted if name in found and _is_coming(found[name], create)]
            if not unready or deadline.passed:
                break
            await asyncio.sleep(min(backoff.next_delay(), deadline.remaining))
        for name in wanted:
            code = found[name].error if name in found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise_for(code, explain_topic_error(name, code))
        return {name: found[name] for name in wanted}

    async def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of these topics, in order."""
        found = await self.topics(topics)
        return [
            TopicPartition(name, index) for name, topic in found.items() for index in sorted(topic.partitions)
        ]

    async def all_topics(self) -> dict[str, TopicMetadata]:
        return dict((await self.refresh(None)).topics)

    async def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> ClusterMetadata:
        """Ask for metadata: of all topics (None), of some, or of the cluster alone (an empty list)."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        newer = from_response(await self.send_to_any(request))
        self.metadata = newer if wanted is None else self.metadata.with_topics(newer)
        return newer

    async def connection_to(self, broker_id: int) -> BrokerConnection:
        broker = self.metadata.brokers.get(broker_id)
        if broker is None:
            await self.refresh([])
            broker = self.metadata.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not part of the cluster now"
            )
        return await self._connect(broker.address)

    async def any_connection(self) -> BrokerConnection:
        """An open connection if there is one, else the first known address that answers."""
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        known = [broker.address for broker in self.metadata.brokers.values()]
        random.shuffle(known)
        failures: list[CannotConnectError] = []
        for address in [*known, *self._bootstrap]:
            try:
                return await self._connect(address)
            except CannotConnectError as error:
                failures.append(error)
        last = failures[-1]
        raise CannotConnectError(", ".join(map(str, self._bootstrap)), last.reason) from last

    async def _connect(self, address: Address) -> BrokerConnection:
        async with self._connecting.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                connection = await BrokerConnection.connect(
                    address.host, address.port, self.client_id, guard=self._guard
                )
                self._connections[address] = connection
            return connection

    async def refresh_quietly(self, topics: Iterable[str]) -> None:
        """Refresh metadata and ignore errors: the next attempt reports them."""
        try:
            await self.refresh(topics)
        except (ClientError, KafkaError):
            return


def raise_for(code: int, message: str = "") -> None:
    """Raise KafkaError for a nonzero error code."""
    if code:
        raise KafkaError(error_code(code), message)


def _is_coming(topic: TopicMetadata, create: bool) -> bool:
    if topic.error == ErrorCode.LEADER_NOT_AVAILABLE:
        return True
    return create and topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
