"""A closed connection is freed immediately, without the cyclic collector, which ignores frozen objects."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.network import socket_server
from barnabas.network.connection import Connection
from barnabas.network.limits import Limits
from barnabas.network.output import Output
from barnabas.network.requests import Handler, Request
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.security.tls.server import ListenerTls
from tests.network.test_back_pressure import large_answer
from tests.network.test_tls_transport import serving_tls, wanted  # noqa: F401  (a fixture)
from tests.support.server import Harness, echo, frame, heartbeat, heartbeat_frame, scenario, serving
from tests.support.waiting import async_until


class Watched(Connection):
    """One that can be referred to weakly; others need not pay for that."""

    __slots__ = ("__weakref__",)


@pytest.fixture(autouse=True)
def without_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(socket_server, "Connection", Watched)
    gc.disable()
    yield
    gc.enable()


def the_only(server: Harness) -> tuple[weakref.ref[Connection], Output]:
    (connection,) = server.server.connections
    return weakref.ref(connection), connection.output


async def is_freed(connection: weakref.ref[Connection]) -> None:
    await async_until(lambda: connection() is None)


@scenario
async def test_an_idle_connection_is_freed_when_it_is_closed() -> None:
    async with serving(heartbeat(echo)) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        assert await client.correlation_ids(1) == [1]
        connection, _ = the_only(server)
        client.abort()
        await is_freed(connection)


@scenario
async def test_one_in_the_middle_of_a_request_is_freed_when_it_is_closed() -> None:
    async with serving(heartbeat(echo)) as server:
        client = await server.connect()
        await client.send(struct.pack(">i", 50_000) + bytes(5000))
        await async_until(lambda: server.server.memory.used > 0)
        connection, _ = the_only(server)
        client.abort()
        await is_freed(connection)


@scenario
async def test_one_that_waits_for_memory_is_freed_when_it_is_closed() -> None:
    async with serving(heartbeat(echo), limits=Limits(queued_bytes=50_000)) as server:
        holder, waiter = await server.connect(), await server.connect()
        await holder.send(struct.pack(">i", 50_000) + bytes(100))
        await async_until(lambda: server.server.memory.used > 0)
        await waiter.send(struct.pack(">i", 50_000) + bytes(100))
        await async_until(lambda: server.server.memory.waiting == 1)
        waiting = [weakref.ref(each) for each in server.server.connections]
        for connection in server.server.connections:
            connection.close("gone")
        del connection
        for each in waiting:
            await is_freed(each)


@scenario
async def test_one_whose_client_does_not_read_is_freed_when_it_is_closed() -> None:
    async with serving(Handler(MetadataRequest, 0, 12, large_answer)) as server:
        client = socket.create_connection(("127.0.0.1", server.port))
        client.sendall(b"".join(frame(MetadataRequest(), 9, number) for number in range(100)))
        await async_until(lambda: any(each.output.queued_bytes for each in server.server.connections))
        connection, output = the_only(server)
        assert output
        client.close()
        await is_freed(connection)


@scenario
async def test_one_with_unanswered_requests_is_freed_when_it_is_closed() -> None:
    seen: list[int] = []

    def forget(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        seen.append(request.correlation_id)

    async with serving(heartbeat(forget)) as server:
        client = await server.connect()
        await client.send(b"".join(map(heartbeat_frame, range(70))) + heartbeat_frame(71)[:20])
        await async_until(lambda: len(seen) == 64)
        connection, _ = the_only(server)
        client.abort()
        await asyncio.sleep(0)
        connection().close("its client has gone, which nobody reads")  # type: ignore[union-attr]
        await is_freed(connection)


@scenario
async def test_connections_open_during_a_gc_freeze_are_freed() -> None:
    loop = asyncio.get_running_loop()
    async with serving(heartbeat(echo)) as server:
        for _ in range(3):
            clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
            await server.connections_become(100)
            refs = [weakref.ref(each) for each in server.server.connections]
            await loop.run_in_executor(None, gc.freeze)
            for client in clients:
                client.close()
            await server.connections_become(0)
            await async_until(lambda: not any(each() for each in refs))  # noqa: B023
    gc.unfreeze()


def test_one_with_tls_is_freed_when_it_is_closed(wanted: ListenerTls) -> None:  # noqa: F811
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(echo)) as (server, connect):
            client = await connect()
            await client.send(heartbeat_frame(1))
            assert await client.correlation_ids(1) == [1]
            connection, _ = the_only(server)
            client.abort()
            await is_freed(connection)

    run()


def test_one_whose_handshake_has_failed_is_freed(wanted: ListenerTls) -> None:  # noqa: F811
    @scenario
    async def run() -> None:
        async with serving_tls(wanted, heartbeat(echo)) as (server, _):
            client = await server.connect()
            await server.connections_become(1)
            connection, _ = the_only(server)
            await client.send(b"GET / HTTP/1.1\r\n\r\n")
            await is_freed(connection)

    run()
