"""Stopping: new requests are rejected, requests in flight are answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.common.clock import ManualClock
from barnabas.network.requests import Request
from barnabas.network.socket_server import SILENT_SECONDS
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from tests.support.server import echo, heartbeat, heartbeat_frame, scenario, serving
from tests.support.waiting import async_until

SILENT_MS = round(1000 * SILENT_SECONDS)


@scenario
async def test_requests_in_flight_are_answered_before_the_server_stops() -> None:
    waiting: list[Request] = []

    def defer(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        waiting.append(request)

    async with serving(heartbeat(defer)) as server:
        client, idle = await server.connect(), await server.connect()
        await client.send(heartbeat_frame(1) + heartbeat_frame(2))
        await async_until(lambda: len(waiting) == 2)
        stopping = asyncio.create_task(server.server.stop())
        assert await idle.is_closed()
        await client.send(heartbeat_frame(3))
        waiting[1].respond(HeartbeatResponse())
        waiting[0].respond(HeartbeatResponse())
        assert await client.correlation_ids(2) == [1, 2]
        await stopping
        assert len(waiting) == 2
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await server.connect()


@scenario
async def test_server_has_a_time_limit() -> None:
    def never(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        return None

    async with serving(heartbeat(never)) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        await async_until(lambda: any(each.unanswered for each in server.server.connections))
        await server.server.stop(timeout_seconds=0.05)
        assert await client.is_closed()


@scenario
async def test_a_long_poll_does_not_hold_up_the_stop() -> None:
    def poll(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        request.client_wait = 30.0

    async with serving(heartbeat(poll)) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        await async_until(lambda: any(each.unanswered for each in server.server.connections))
        await asyncio.wait_for(server.server.stop(), 2.0)
        assert await client.is_closed()


@scenario
async def test_a_server_without_clients_stops_at_once() -> None:
    async with serving(heartbeat(echo)) as server:
        await asyncio.wait_for(server.server.stop(timeout_seconds=60.0), 5.0)
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await server.connect()


@scenario
async def test_handlers_that_still_run_are_given_up() -> None:
    ended: list[str] = []

    async def wait(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return HeartbeatResponse()

    async with serving(heartbeat(wait)) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        await async_until(lambda: any(each.unanswered for each in server.server.connections))
        await server.server.stop(timeout_seconds=0.05)
        await async_until(lambda: bool(ended))
        assert ended == ["cancelled"]
        assert await client.is_closed()


@scenario
async def test_fenced_client_is_answered_until_its_last_request() -> None:
    clock = ManualClock()
    async with serving(heartbeat(echo), clock=clock) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        assert await client.correlation_ids(1) == [1]
        turning_away = asyncio.create_task(server.server.turn_away(timeout_seconds=10 * SILENT_SECONDS))
        for number in (2, 3, 4):
            clock.advance(SILENT_MS - 10)
            await client.send(heartbeat_frame(number))
            assert await client.correlation_ids(1) == [number]
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await server.connect()
        assert not turning_away.done()
        clock.advance(SILENT_MS)
        await turning_away
        assert len(server.server.connections) == 1


@scenario
async def test_repeated_requests_do_not_extend_a_shutdown() -> None:
    clock = ManualClock()
    async with serving(heartbeat(echo), clock=clock) as server:
        client = await server.connect()
        turning_away = asyncio.create_task(server.server.turn_away(timeout_seconds=10 * SILENT_SECONDS))
        for number in range(1, 11):
            await client.send(heartbeat_frame(number))
            assert await client.correlation_ids(1) == [number]
            clock.advance(SILENT_MS)
        await turning_away


@scenario
async def test_no_wait_without_connections() -> None:
    async with serving(heartbeat(echo), clock=ManualClock()) as server:
        await server.server.turn_away(timeout_seconds=60.0)
