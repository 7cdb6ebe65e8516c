"""Requests to other brokers. A single broker handles its requests without a socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from typing import Any, Protocol

from barnabas.client import BrokerConnection, ClientError
from barnabas.client.security import NO_GUARD, Guard
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import PEER_CLIENT_ID

Answer = Callable[[Any], Awaitable[Any]]
Locate = Callable[[int], tuple[str, int] | None]

CONNECT_SECONDS = 3.0  # a broker of the same cluster responds immediately, or is down
REQUEST_SECONDS = 30.0  # Kafka's controller.socket.timeout.ms
# In addition to the max wait of a fetch. Kafka's replica.socket.timeout.ms is 30 s, as long as
# replica.lag.time.max.ms: with a silently dead connection, a replica would drop out of the ISR.
FETCH_SECONDS = 10.0


class Peers(Protocol):
    async def send(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        """Return the response; raise `KafkaError` (BROKER_NOT_AVAILABLE) if the broker cannot be reached."""
        ...

    async def serves(self, broker_id: int, api_key: ApiKey) -> bool:
        """True if the broker supports this API; raise `KafkaError` if it cannot be reached."""
        ...

    def close(self) -> None:
        """Close all connections. There must be no requests afterwards."""


class PeerAddresses:
    """Addresses of the inter-broker listeners, from the newest image."""

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
    """Peers of a single node: requests to itself are passed to `answer`, all others fail."""

    def __init__(self, broker_id: int, answer: Answer) -> None:
        self._broker_id = broker_id
        self._answer = answer

    async def send(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        if broker_id != self._broker_id:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"unknown broker {broker_id}: broker {self._broker_id} is a single node",
            )
        return await self._answer(request)

    async def serves(self, broker_id: int, api_key: ApiKey) -> bool:
        return broker_id == self._broker_id

    def close(self) -> None:
        """Nothing to close without connections."""


class _Purpose(Enum):
    """Purpose of a connection. Responses are in request order, so a slow one delays all later ones. A fetch waits for
    records, a transaction marker for its commit. Requests to the controller must not wait for either: they resolve
    what delays a commit."""

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
    """One connection per broker and purpose, opened on demand."""

    def __init__(self, broker_id: int, answer: Answer, locate: Locate, guard: Guard = NO_GUARD) -> None:
        """Create without connecting; `guard` has TLS and SASL settings for connections to other brokers."""
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
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} does not respond: {error}"
            ) from error

    async def serves(self, broker_id: int, api_key: ApiKey) -> bool:
        """True if the broker supports this API, by the ApiVersions response of the connection."""
        if broker_id == self._broker_id:
            return True
        try:
            connection = await self._connection(broker_id, _PURPOSES.get(api_key, _Purpose.OTHERS))
        except ClientError as error:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} does not respond: {error}"
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
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"unknown broker {broker_id}")
            existing = self._connections.get(key)
            if existing is not None and not existing.closed and existing.address == address:
                return existing
            if existing is not None:
                existing.close()
            connection = self._connections[key] = await self._connect(broker_id, address)
            return connection

    async def _connect(self, broker_id: int, address: tuple[str, int]) -> BrokerConnection:
        client_id = f"{PEER_CLIENT_ID}{self._broker_id}"
        return await BrokerConnection.connect(*address, client_id, CONNECT_SECONDS, self._guard)


class NodePeers(NetworkPeers):
    """Processes of one node. `connect` returns a connected socket, without address and password."""

    def __init__(
        self, broker_id: int, answer: Answer, connect: Callable[[int], Awaitable[socket.socket]]
    ) -> None:
        super().__init__(broker_id, answer, lambda broker_id: (f"process {broker_id}", 0))
        self._connected_to = connect

    async def _connect(self, broker_id: int, address: tuple[str, int]) -> BrokerConnection:
        end = await self._connected_to(broker_id)
        client_id = f"{PEER_CLIENT_ID}{self._broker_id}"
        return await BrokerConnection.over(end, address, client_id, CONNECT_SECONDS)
