"""Requests to other brokers as a seam. One broker alone answers itself, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from typing import Any, Protocol

from barnabas.client.connection import BrokerConnection
from barnabas.client.errors import ClientError
from barnabas.client.security.guard import NO_GUARD, Guard
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import PEER_CLIENT_ID

Answer = Callable[[Any], Awaitable[Any]]
Locate = Callable[[int], tuple[str, int] | None]

CONNECT_SECONDS = 3.0  # a broker of the same cluster answers at once, or is down
REQUEST_SECONDS = 30.0  # Kafka's controller.socket.timeout.ms
# Besides the time that a fetch may wait for records. Kafka's replica.socket.timeout.ms is 30 s, no less than
# replica.lag.time.max.ms: over a connection that is dead without a word a replica would fall out of sync.
FETCH_SECONDS = 10.0


class Peers(Protocol):
    async def send(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        """The response message; a `KafkaError` (BROKER_NOT_AVAILABLE) when the broker cannot be reached."""
        ...

    async def serves(self, broker_id: int, api_key: ApiKey) -> bool:
        """Does a broker list this API? A `KafkaError` when it cannot be reached."""
        ...

    def close(self) -> None:
        """Close the connections; nothing is sent afterwards."""


class PeerAddresses:
    """Where the other brokers listen for their peers, as the newest image says."""

    def __init__(self, node_id: int, listener: str, image: Callable[[], MetadataImage]) -> None:
        self._node_id = node_id
        self._listener = listener
        self._image = image

    def of(self, broker_id: int) -> tuple[str, int] | None:
        broker = self._image().brokers.get(broker_id)
        for endpoint in broker.endpoints if broker is not None else ():
            if endpoint.name == self._listener:
                return endpoint.host, endpoint.port
        return None

    def hosts(self) -> Iterator[str]:
        for broker_id in self._image().brokers:
            address = self.of(broker_id) if broker_id != self._node_id else None
            if address is not None:
                yield address[0]


class LocalPeers:
    """The short cut: requests to the broker itself go straight to `answer`, and there are no others."""

    def __init__(self, broker_id: int, answer: Answer) -> None:
        self._broker_id = broker_id
        self._answer = answer

    async def send(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        if broker_id != self._broker_id:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"broker {broker_id} is not known: broker {self._broker_id} runs alone",
            )
        return await self._answer(request)

    async def serves(self, broker_id: int, api_key: ApiKey) -> bool:
        return broker_id == self._broker_id

    def close(self) -> None:
        """There are no connections."""


class _Purpose(Enum):
    """Answers come in the order of the requests, so that a slow one holds up what is behind it. A fetch waits for
    records, a marker until it is committed. What a broker asks of the controller must not wait for either: the way
    out of what holds up a commit leads through there."""

    FETCHES = "fetches"
    CONTROL = "control"
    OTHERS = "others"


_PURPOSES = {
    ApiKey.FETCH: _Purpose.FETCHES,
    ApiKey.ALTER_PARTITION: _Purpose.CONTROL,
    ApiKey.BROKER_HEARTBEAT: _Purpose.CONTROL,
    ApiKey.ALLOCATE_PRODUCER_IDS: _Purpose.CONTROL,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _Purpose.CONTROL,
}


class NetworkPeers:
    """A connection for each kind of request to each broker, made when it is needed."""

    def __init__(self, broker_id: int, answer: Answer, locate: Locate, guard: Guard = NO_GUARD) -> None:
        """`guard`: TLS and SASL as a client of other brokers."""
        self._broker_id = broker_id
        self._answer = answer
        self._locate = locate
        self._guard = guard
        self._connections: dict[tuple[int, _Purpose], BrokerConnection] = {}
        self._opening: dict[tuple[int, _Purpose], asyncio.Lock] = {}

    async def send(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        if broker_id == self._broker_id:
            return await self._answer(request)
        purpose = _PURPOSES.get(request.api_key, _Purpose.OTHERS)
        within = (
            request.max_wait_ms / 1000 + FETCH_SECONDS if purpose is _Purpose.FETCHES else REQUEST_SECONDS
        )
        try:
            connection = await self._connection(broker_id, purpose)
            return await connection.send(request, version, within)
        except ClientError as error:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} does not answer: {error}"
            ) from error

    async def serves(self, broker_id: int, api_key: ApiKey) -> bool:
        """As it said when it was connected to: another version of it is another connection."""
        if broker_id == self._broker_id:
            return True
        try:
            connection = await self._connection(broker_id, _PURPOSES.get(api_key, _Purpose.OTHERS))
        except ClientError as error:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} does not answer: {error}"
            ) from error
        return api_key in connection.versions

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def _connection(self, broker_id: int, purpose: _Purpose) -> BrokerConnection:
        key = (broker_id, purpose)
        async with self._opening.setdefault(key, asyncio.Lock()):
            address = self._locate(broker_id)
            if address is None:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not known")
            known = self._connections.get(key)
            if known is not None and not known.closed and known.address == address:
                return known
            if known is not None:
                known.close()
            opened = await BrokerConnection.connect(
                *address, f"{PEER_CLIENT_ID}{self._broker_id}", CONNECT_SECONDS, self._guard
            )
            self._connections[key] = opened
            return opened
