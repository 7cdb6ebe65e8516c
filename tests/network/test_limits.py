"""Limits of connections and their duration."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from barnabas.common.clock import ManualClock
from barnabas.config.broker import BrokerConfig
from barnabas.network.limits import UNLIMITED, Limits, limits_from
from barnabas.network.requests import Request
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from tests.support.server import Harness, echo, heartbeat, heartbeat_frame, scenario, serving
from tests.support.waiting import async_until

LIMITS = Limits(
    idle_seconds=60,
    first_request_seconds=10,
    frame_seconds=5,
    frame_bytes_per_second=1000,
    answer_seconds=600,
)


async def pass_time(server: Harness, clock: ManualClock, seconds: float) -> None:
    clock.advance(round(seconds * 1000))
    server.server.connections.close_overdue(clock.monotonic())


@scenario
async def test_a_connection_without_a_first_request_is_closed() -> None:
    clock = ManualClock()
    async with serving(heartbeat(echo), limits=LIMITS, clock=clock) as server:
        client, busy = await server.connect(), await server.connect()
        await busy.send(heartbeat_frame(1))
        assert await busy.correlation_ids(1) == [1]
        await server.connections_become(2)
        await pass_time(server, clock, 9)
        assert len(server.server.connections) == 2
        await pass_time(server, clock, 2)
        assert len(server.server.connections) == 1
        assert await client.is_closed()


@scenario
async def test_a_client_that_sends_its_first_request_byte_by_byte_is_closed_all_the_same() -> None:
    clock = ManualClock()
    async with serving(heartbeat(echo), limits=LIMITS, clock=clock) as server:
        client = await server.connect()
        await server.connections_become(1)
        (connection,) = server.server.connections
        for byte in heartbeat_frame(1)[:6]:
            await client.send(bytes([byte]))
            await async_until(lambda: connection.last_active == clock.monotonic())
            clock.advance(1900)
        await pass_time(server, clock, 0)
        assert await client.is_closed()


@scenario
async def test_a_request_that_arrives_too_slowly_closes_the_connection_and_frees_its_memory() -> None:
    clock = ManualClock()
    async with serving(heartbeat(echo), limits=LIMITS, clock=clock) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1) + struct.pack(">i", 20_000) + bytes(100))
        assert await client.correlation_ids(1) == [1]
        await async_until(lambda: server.server.memory.used > 20_000)
        await pass_time(server, clock, 4)  # of 5 seconds, and one more for each 1,000 bytes that have arrived
        (connection,) = server.server.connections
        await client.send(bytes(10_000))
        await async_until(lambda: connection.last_active == clock.monotonic())
        await pass_time(server, clock, 11)
        assert len(server.server.connections) == 1
        await pass_time(server, clock, 1)
        assert await client.is_closed()
        assert server.server.memory.used == 0
        assert server.server.closed["slow request"] == 1


@scenario
async def test_a_large_request_that_keeps_arriving_has_all_the_time_it_needs() -> None:
    clock = ManualClock()
    async with serving(heartbeat(echo), limits=LIMITS, clock=clock) as server:
        client = await server.connect()
        await server.connections_become(1)
        (connection,) = server.server.connections
        data = heartbeat_frame(0) + heartbeat_frame(1, group="x" * 30_000)
        for start in range(0, len(data), 1000):
            await client.send(data[start : start + 1000])
            await async_until(lambda: connection.last_active == clock.monotonic())
            await pass_time(server, clock, 1.1)
        assert await client.correlation_ids(2) == [0, 1]


@scenario
async def test_three_bytes_of_a_request_are_not_waited_for_longer_than_a_whole_one() -> None:
    clock = ManualClock()
    async with serving(heartbeat(echo), limits=LIMITS, clock=clock) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1) + b"\x00\x00\x00")
        assert await client.correlation_ids(1) == [1]
        await pass_time(server, clock, 6)
        assert await client.is_closed()


@scenario
async def test_an_idle_connection_is_closed() -> None:
    clock = ManualClock()
    async with serving(heartbeat(echo), limits=LIMITS, clock=clock) as server:
        client = await server.connect()
        for _ in range(3):
            await client.send(heartbeat_frame(1))
            assert await client.correlation_ids(1) == [1]
            await pass_time(server, clock, 59)
        assert len(server.server.connections) == 1
        await pass_time(server, clock, 2)
        assert await client.is_closed()


@scenario
async def test_a_connection_that_waits_for_its_answer_is_not_idle() -> None:
    clock = ManualClock()
    waiting: list[Request] = []

    def defer(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        waiting.append(request)

    async with serving(heartbeat(defer), limits=LIMITS, clock=clock) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        await async_until(lambda: bool(waiting))
        await pass_time(server, clock, 500)
        waiting[0].respond(HeartbeatResponse())
        assert await client.correlation_ids(1) == [1]


@scenario
async def test_a_client_is_cut_off_rather_than_left_without_an_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    waiting: list[Request] = []

    def forget(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        request.client_wait = 10.0
        waiting.append(request)

    async with serving(heartbeat(forget), limits=LIMITS, clock=clock) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        await async_until(lambda: bool(waiting))
        await pass_time(server, clock, 609)
        assert len(server.server.connections) == 1
        await pass_time(server, clock, 2)
        assert await client.is_closed()
    assert "Heartbeat version" in caplog.text
    assert "was not answered for 611 s" in caplog.text


@scenario
async def test_connections_beyond_the_limit_are_closed_at_once_and_room_is_used_again() -> None:
    async with serving(heartbeat(echo), limits=Limits(connections=2)) as server:
        first, _ = await server.connect(), await server.connect()
        await server.connections_become(2)
        third = await server.connect()
        assert await third.is_closed()
        assert server.server.connections.refused["TEST"] == 1
        first.abort()
        await server.connections_become(1)
        fourth = await server.connect()
        await fourth.send(heartbeat_frame(4))
        assert await fourth.correlation_ids(1) == [4]


@scenario
async def test_connections_are_limited_by_address() -> None:
    limits = Limits(connections_per_address=100, address_overrides={"127.0.0.1": 1})
    async with serving(heartbeat(echo), limits=limits) as server:
        await server.connect()
        await server.connections_become(1)
        second = await server.connect()
        assert await second.is_closed()


@scenario
async def test_a_listener_may_have_a_limit_of_its_own() -> None:
    async with serving(heartbeat(echo), limits=Limits(listener_connections={"TEST": 1})) as server:
        await server.connect()
        await server.connections_become(1)
        second = await server.connect()
        assert await second.is_closed()


def test_limits_come_from_the_settings() -> None:
    limits = limits_from(
        BrokerConfig.load(
            {
                "socket.request.max.bytes": "2000",
                "queued.max.request.bytes": "-1",
                "max.connections": "7",
                "listener.name.plaintext.max.connections": "5",
                "listener.name.plaintext.max.connection.creation.rate": "9",
                "max.connections.per.ip": "6",
                "max.connections.per.ip.overrides": "10.0.0.1:3, ::1:4",
                "connections.max.idle.ms": "-1",
                "barnabas.first.request.timeout.ms": "1500",
                "barnabas.queued.max.request.bytes.per.ip": "9000",
                "barnabas.request.min.bytes.per.second": "100",
                "barnabas.request.late.ms": "4000",
                "barnabas.request.late.short.memory.ms": "500",
                "sasl.server.max.receive.size": "1000",
            }
        )
    )
    assert (limits.request_bytes, limits.queued_bytes, limits.connections) == (2000, UNLIMITED, 7)
    assert [limits.connections_from(host) for host in ("10.0.0.1", "::1", "10.0.0.2")] == [3, 4, 6]
    assert limits.listener_connections == {"PLAINTEXT": 5}
    assert limits.listener_connections_per_second == {"PLAINTEXT": 9}
    assert limits.idle_seconds == float("inf")
    assert limits.first_request_seconds == 1.5
    assert limits.queued_bytes_per_address == 9000
    assert (limits.frame_bytes_per_second, limits.frame_seconds, limits.short_frame_seconds) == (
        100,
        4.0,
        0.5,
    )
    assert [limits.longest_request(is_authenticated=each)[0] for each in (False, True)] == [1000, 2000]


@pytest.mark.parametrize(("queued", "share"), [("1000", 500), ("-1", UNLIMITED // 2)])
def test_address_may_use_half_of_the_memory_by_default(queued: str, share: int) -> None:
    limits = limits_from(BrokerConfig.load({"queued.max.request.bytes": queued}))
    assert limits.queued_bytes_per_address == share


@scenario
async def test_a_request_is_not_late_because_we_did_not_read_it() -> None:
    clock = ManualClock()
    waiting: list[Request] = []

    def defer(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        waiting.append(request)

    async with serving(heartbeat(defer), limits=LIMITS, clock=clock) as server:
        client = await server.connect()
        last = heartbeat_frame(64, group="x" * 1000)
        await client.send(b"".join(map(heartbeat_frame, range(64))) + last[:500])
        await async_until(lambda: len(waiting) == 64)
        await client.send(last[500:])
        await pass_time(server, clock, 100)
        for request in tuple(waiting):
            request.respond(HeartbeatResponse())
        await pass_time(server, clock, 4)
        await async_until(lambda: len(waiting) == 65)
        waiting[64].respond(HeartbeatResponse())
        assert await client.correlation_ids(65) == list(range(65))


@pytest.mark.parametrize(
    ("limit", "limits"),
    [
        ("broker", Limits(connections_per_second=2)),
        ("listener", Limits(listener_connections_per_second={"TEST": 2, "OTHER": 1})),
    ],
)
@scenario
async def test_clients_that_connect_too_fast_are_throttled(limit: str, limits: Limits) -> None:
    clock = ManualClock()
    async with serving(heartbeat(echo), limits=limits, clock=clock) as server:
        clients = [await server.connect() for _ in range(3)]
        await clients[0].send(heartbeat_frame(0))
        await clients[1].send(heartbeat_frame(1))
        assert [await client.correlation_ids(1) for client in clients[:2]] == [[0], [1]]
        assert len(server.server.connections) == 2
        clock.advance(500)
        await clients[2].send(heartbeat_frame(2))
        assert await clients[2].correlation_ids(1) == [2]
        (listener,) = server.server.listeners
        assert listener.throttled[limit] >= 1


@scenario
async def test_limits_may_change_while_the_server_runs() -> None:
    async with serving(heartbeat(echo), limits=Limits(connections=1)) as server:
        await server.connect()
        await server.connections_become(1)
        assert await (await server.connect()).is_closed()
        server.server.use_limits(Limits(connections=2))
        await server.connect()
        await server.connections_become(2)


@scenario
async def test_timeouts_of_many_connections_are_checked_a_few_at_a_time() -> None:
    clock = ManualClock()
    async with serving(heartbeat(echo), limits=LIMITS, clock=clock) as server:
        for _ in range(10):
            await server.connect()
        await server.connections_become(10)
        clock.advance(11_000)
        connections = server.server.connections
        assert not connections.close_overdue(clock.monotonic(), 4)
        assert len(connections) == 6
        assert not connections.close_overdue(clock.monotonic(), 4)
        assert connections.close_overdue(clock.monotonic(), 4)
        assert len(connections) == 0
