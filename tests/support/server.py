"""A socket server with test handlers, a complete broker, and clients that send raw bytes."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from barnabas.broker.broker import Broker
from barnabas.common.clock import ManualClock, SystemClock
from barnabas.common.errors import ErrorCode
from barnabas.config.broker import BrokerConfig
from barnabas.metrics.registry import Registry
from barnabas.metrics.requests import RequestMetrics
from barnabas.network.connections import BrokerHosts
from barnabas.network.event_loop import new_event_loop
from barnabas.network.limits import Limits
from barnabas.network.listener import Listener
from barnabas.network.requests import Dispatcher, Handler, Request
from barnabas.network.requests.dispatch import DEFAULT_BUDGET
from barnabas.network.requests.heavy_requests import RequestBudget
from barnabas.network.socket_server import SocketServer
from barnabas.protocol.api import response_class
from barnabas.protocol.framing import decode_response
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.schema import Message
from barnabas.testing import EmbeddedBroker
from tests.support.clients import frame_of
from tests.support.waiting import async_eventually, async_until

DEADLINE = 60.0

Function = Callable[[Any, Request, Any], Any]


def scenario(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test's coroutine with a timeout."""

    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(asyncio.wait_for(test(*args, **kwargs), DEADLINE))

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    run.__signature__ = __import__("inspect").signature(test)  # type: ignore[attr-defined]
    return run


@contextmanager
def brokers_let_in(broker: EmbeddedBroker) -> Iterator[None]:
    """Allow broker-only requests on a single node."""
    (listener,) = broker.broker.listeners
    listener.serves_brokers = True
    try:
        yield
    finally:
        listener.serves_brokers = False


def heartbeat(function: Function) -> Handler:
    """A handler row: Heartbeat represents any small request, with its content in the generation id."""
    return Handler(HeartbeatRequest, 0, 4, function)


def echo(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=message.generation_id)


class Harness:
    """A running server, the deferred requests that its handlers keep, and the clients of a test."""

    def __init__(self, server: SocketServer, dispatcher: Dispatcher, registry: Registry) -> None:
        self.server = server
        self.dispatcher = dispatcher
        self.registry = registry
        self.clients: list[Client] = []

    @property
    def port(self) -> int:
        return self.server.listeners[0].port

    async def connect(self) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        client = Client(reader, writer)
        self.clients.append(client)
        return client

    async def connections_become(self, count: int) -> None:
        await async_until(lambda: len(self.server.connections) == count)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def response(self) -> bytes:
        """The next response without its length."""
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(length)

    async def correlation_ids(self, count: int) -> list[int]:
        return [struct.unpack_from(">i", await self.response())[0] for _ in range(count)]

    async def is_closed(self) -> bool:
        """Wait for the server to close the connection; False if it sends data first."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def abort(self) -> None:
        self.writer.transport.abort()


def frame(message: Message, version: int, correlation_id: int = 1, client_id: str | None = "test") -> bytes:
    return frame_of(message, version, correlation_id, client_id)


def heartbeat_frame(correlation_id: int = 1, *, version: int = 4, group: str = "g", value: int = 0) -> bytes:
    return frame(
        HeartbeatRequest(group_id=group, generation_id=value, member_id="m"), version, correlation_id
    )


@asynccontextmanager
async def serving(
    *handlers: Handler,
    limits: Limits | None = None,
    clock: ManualClock | None = None,
    broker: Any = None,
    brokers: BrokerHosts = frozenset(),
    listener_of_brokers: Listener | None = None,
    slow_request_seconds: float = 0.0,
    budget: RequestBudget = DEFAULT_BUDGET,
) -> AsyncIterator[Harness]:
    registry = Registry()
    monotonic = (clock or SystemClock()).monotonic
    dispatcher = Dispatcher(
        broker,
        handlers,
        RequestMetrics(registry),
        slow_request_seconds=slow_request_seconds,
        budget=budget,
        monotonic=monotonic,
    )
    server = SocketServer(
        [Listener("TEST", "127.0.0.1", 0), *([listener_of_brokers] if listener_of_brokers else [])],
        dispatcher,
        limits,
        brokers=brokers,
        brokers_listener=listener_of_brokers.name if listener_of_brokers else None,
        monotonic=monotonic,
    )
    await server.start()
    harness = Harness(server, dispatcher, registry)
    try:
        yield harness
    finally:
        for client in harness.clients:
            client.abort()
        await server.stop(timeout_seconds=1.0)


async def gather(waits: Iterable[Awaitable[Any]]) -> list[Any]:
    return list(await asyncio.gather(*waits))


NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class RawBroker:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.clients: list[Client] = []

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.broker.listeners[0].port))
        self.clients.append(client)
        return client

    async def coordinator_answers(
        self, client: Client, request: Message, version: int, key: str, kind: int
    ) -> Any:
        """An answer of a coordinator, whose topic is created at the first question and loaded a moment later."""
        await ask(client, FindCoordinatorRequest(key=key, key_type=kind), 3)
        return await async_eventually(
            lambda: ask(client, request, version), lambda answer: answer.error_code not in NOT_YET
        )


SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # Files take time to create.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


@asynccontextmanager
async def raw_broker(folder: Path, **settings: str) -> AsyncIterator[RawBroker]:
    """Names of settings with `_` in place of dots."""
    values = {name.replace("_", "."): value for name, value in settings.items()}
    broker = Broker(BrokerConfig.load({**SETTINGS, "log.dirs": str(folder), **values}))
    await broker.start()
    raw = RawBroker(broker)
    try:
        yield raw
    finally:
        for client in raw.clients:
            client.abort()
        await broker.stop()


async def ask(client: Client, request: Message, version: int, client_id: str = "test") -> Any:
    await client.send(frame(request, version, client_id=client_id))
    return decoded(request.api_key, version, await client.response())


def decoded(api_key: int, version: int, answer: bytes) -> Any:
    """A response without its length."""
    return decode_response(api_key, version, response_class(api_key), memoryview(answer))[1]
