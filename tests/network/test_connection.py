"""Framing, order, and misbehaving connections."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from barnabas.network.limits import Limits
from barnabas.network.requests import Handler, Request
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from barnabas.security.principal import Principal
from tests.support.server import echo, frame, heartbeat, heartbeat_frame, scenario, serving
from tests.support.waiting import async_until

ALICE = Principal("User", "alice")


@scenario
async def test_a_request_may_arrive_split_at_any_byte() -> None:
    async with serving(heartbeat(echo)) as server:
        client = await server.connect()
        data = heartbeat_frame(7, value=5)
        for cut in range(1, len(data)):
            await client.send(data[:cut])
            (connection,) = server.server.connections
            received = connection.received
            await async_until(lambda: connection.received != received or cut == 0)  # noqa: B023
            await client.send(data[cut:])
            assert await client.response() == struct.pack(">ibihb", 7, 0, 5, 0, 0)


@scenario
async def test_requests_may_arrive_one_byte_at_a_time() -> None:
    async with serving(heartbeat(echo)) as server:
        client = await server.connect()
        for byte in heartbeat_frame(1) + heartbeat_frame(2):
            await client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert await client.correlation_ids(2) == [1, 2]


@pytest.mark.parametrize("tail", [1, 3, 4, 5, 13, 14, 20])
def test_whole_requests_and_the_beginning_of_one_may_arrive_together(tail: int) -> None:
    @scenario
    async def run() -> None:
        async with serving(heartbeat(echo)) as server:
            client = await server.connect()
            data = b"".join(map(heartbeat_frame, range(10)))
            last = heartbeat_frame(10)
            await client.send(data + last[:tail])
            assert await client.correlation_ids(10) == list(range(10))
            await client.send(last[tail:] + heartbeat_frame(11))
            assert await client.correlation_ids(2) == [10, 11]

    run()


@scenario
async def test_thousands_of_pipelined_requests_are_answered_in_order() -> None:
    async with serving(heartbeat(echo)) as server:
        client = await server.connect()
        sending = asyncio.create_task(client.send(b"".join(map(heartbeat_frame, range(5000)))))
        assert await client.correlation_ids(5000) == list(range(5000))
        await sending


@scenario
async def test_a_request_larger_than_the_receive_buffer_arrives_whole() -> None:
    lengths = []

    def measure(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        lengths.append(len(message.group_id))
        return HeartbeatResponse()

    async with serving(heartbeat(measure)) as server:
        client = await server.connect()
        group = "x" * 30_000
        padding = b"".join(heartbeat_frame(number, group=group) for number in range(100))
        await client.send(padding)
        assert await client.correlation_ids(100) == list(range(100))
        assert lengths == [30_000] * 100
        assert server.server.memory.used == 0


@scenario
async def test_responses_keep_the_order_of_requests_when_later_ones_are_ready_first() -> None:
    waiting: list[Request] = []

    def defer_even(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse | None:
        if message.generation_id % 2:
            return HeartbeatResponse()
        waiting.append(request)
        return None

    async with serving(heartbeat(defer_even)) as server:
        client = await server.connect()
        await client.send(b"".join(heartbeat_frame(number, value=number) for number in range(6)))
        await async_until(lambda: len(waiting) == 3)
        waiting[2].respond(HeartbeatResponse())
        waiting[1].respond(HeartbeatResponse())
        await asyncio.sleep(0)
        assert not client.reader._buffer  # type: ignore[attr-defined]
        waiting[0].respond(HeartbeatResponse())
        assert await client.correlation_ids(6) == list(range(6))


@scenario
async def test_a_handler_may_answer_with_nothing_and_the_next_response_follows() -> None:
    def silent_when_zero(
        broker: Any, request: Request, message: HeartbeatRequest
    ) -> HeartbeatResponse | None:
        if message.generation_id:
            return HeartbeatResponse()
        request.respond_nothing()
        return None

    async with serving(heartbeat(silent_when_zero)) as server:
        client = await server.connect()
        await client.send(b"".join(heartbeat_frame(number, value=number % 3) for number in range(6)))
        assert await client.correlation_ids(4) == [1, 2, 4, 5]


@scenario
async def test_a_handler_may_respond_before_it_returns() -> None:
    def respond(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        request.respond(HeartbeatResponse())

    async with serving(heartbeat(respond)) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1) + heartbeat_frame(2))
        assert await client.correlation_ids(2) == [1, 2]


@scenario
async def test_a_request_is_answered_once_only() -> None:
    waiting: list[Request] = []

    def defer(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        waiting.append(request)

    async with serving(heartbeat(defer)) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        await async_until(lambda: bool(waiting))
        waiting[0].respond(HeartbeatResponse())
        with pytest.raises(RuntimeError, match="answered twice"):
            waiting[0].respond(HeartbeatResponse())


@scenario
async def test_the_request_after_a_coroutine_handler_waits_for_it() -> None:
    begun: list[int] = []
    gates = [asyncio.Event(), asyncio.Event()]

    async def wait(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        begun.append(message.generation_id)
        await gates[message.generation_id].wait()
        return HeartbeatResponse()

    async with serving(heartbeat(wait)) as server:
        client, other = await server.connect(), await server.connect()
        await client.send(heartbeat_frame(1, value=0) + heartbeat_frame(2, value=1))
        await async_until(lambda: begun == [0])
        gates[1].set()
        await other.send(heartbeat_frame(3, value=1))
        assert await other.correlation_ids(1) == [3]
        assert begun == [0, 1]  # that was the other connection's
        gates[0].set()
        assert await client.correlation_ids(2) == [1, 2]
        assert begun == [0, 1, 1]


@scenario
async def test_a_coroutine_handler_keeps_its_own_copy_of_the_request() -> None:
    gate = asyncio.Event()

    async def wait(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        await gate.wait()
        return HeartbeatResponse(throttle_time_ms=len(message.group_id))

    async with serving(heartbeat(wait)) as server:
        client, other = await server.connect(), await server.connect()
        await client.send(heartbeat_frame(1, group="first"))
        await other.send(heartbeat_frame(1, group="overwrites the shared buffer"))
        await server.connections_become(2)
        gate.set()
        assert struct.unpack_from(">ibi", await client.response())[2] == len("first")


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 9, 1001, 2**31 - 1])
def test_cve_2026_10142_a_length_that_no_request_can_have_closes_the_connection(length: int) -> None:
    @scenario
    async def run() -> None:
        async with serving(heartbeat(echo), limits=Limits(request_bytes=1000)) as server:
            client, other = await server.connect(), await server.connect()
            await client.send(heartbeat_frame(1) + struct.pack(">i", length) + bytes(20))
            assert await client.correlation_ids(1) == [1]
            assert await client.is_closed()
            await other.send(heartbeat_frame(2))
            assert await other.correlation_ids(1) == [2]
            assert server.server.memory.used == 0
            assert server.server.closed == {"length": 1}

    run()


@scenario
async def test_an_oversized_request_is_refused_even_if_it_is_there_completely() -> None:
    async with serving(heartbeat(echo), limits=Limits(request_bytes=100)) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1, group="x" * 200))
        assert await client.is_closed()


@scenario
async def test_a_client_that_has_not_authenticated_may_not_send_large_requests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    versions = Handler(ApiVersionsRequest, 0, 4, lambda *_: ApiVersionsResponse())
    async with serving(versions, limits=Limits(unauthenticated_bytes=1000)) as server:
        server.server.listeners[0].security_protocol = "SASL_PLAINTEXT"
        stranger, known = await server.connect(), await server.connect()
        await server.connections_become(2)
        for connection in server.server.connections:
            if connection.peer[1] == known.writer.get_extra_info("sockname")[1]:
                connection.authenticated(ALICE)
                assert connection.context.principal == ALICE
        for client in (stranger, known):
            await client.send(frame(ApiVersionsRequest("x" * 900, "1"), 3, 1))
            assert await client.correlation_ids(1) == [1]
            await client.send(frame(ApiVersionsRequest("x" * 1000, "1"), 3, 2))
        assert await known.correlation_ids(1) == [2]
        assert await stranger.is_closed()
        assert "sasl.server.max.receive.size" in caplog.text


@scenario
async def test_nothing_else_of_a_client_is_decoded_before_it_has_authenticated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = []

    def count(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        seen.append(request.context.principal)
        return HeartbeatResponse()

    async with serving(heartbeat(count)) as server:
        server.server.listeners[0].security_protocol = "SASL_PLAINTEXT"
        stranger, known = await server.connect(), await server.connect()
        await server.connections_become(2)
        for connection in server.server.connections:
            if connection.peer[1] == known.writer.get_extra_info("sockname")[1]:
                connection.authenticated(ALICE)
        for client in (stranger, known):
            await client.send(heartbeat_frame(1))
        assert await known.correlation_ids(1) == [1]
        assert await stranger.is_closed()
        assert seen == [ALICE]
        assert "Heartbeat before it has authenticated" in caplog.text


@scenario
async def test_a_client_that_leaves_in_the_middle_of_a_request_gives_its_memory_back() -> None:
    async with serving(heartbeat(echo)) as server:
        client = await server.connect()
        await client.send(struct.pack(">i", 50_000_000) + bytes(5000))
        await async_until(lambda: server.server.memory.used > 5000)
        client.abort()
        await server.connections_become(0)
        assert server.server.memory.used == 0


@scenario
async def test_answers_to_a_client_that_has_left_are_dropped() -> None:
    waiting: list[Request] = []

    def defer(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        waiting.append(request)

    async with serving(heartbeat(defer)) as server:
        client = await server.connect()
        await client.send(b"".join(map(heartbeat_frame, range(10))))
        await async_until(lambda: len(waiting) == 10)
        client.abort()
        await server.connections_become(0)
        for request in waiting:
            request.respond(HeartbeatResponse())
        assert not server.server.connections
        another = await server.connect()
        await another.send(heartbeat_frame(11))
        await async_until(lambda: len(waiting) == 11)
        waiting[10].respond(HeartbeatResponse())
        assert await another.correlation_ids(1) == [11]


@scenario
async def test_a_connection_that_is_broken_while_it_is_written_to_is_closed() -> None:
    waiting: list[Request] = []

    def defer(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        waiting.append(request)

    async with serving(heartbeat(defer)) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        await async_until(lambda: bool(waiting))
        client.abort()
        [connection] = server.server.connections
        waiting[0].respond(HeartbeatResponse())  # before the loop has seen the end of the connection
        await server.connections_become(0)
        assert connection.closed
