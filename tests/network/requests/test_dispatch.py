"""Dispatch of requests to handlers, missing handlers, and failures."""

from __future__ import annotations

import logging
import struct
from typing import Any

import pytest

from barnabas.common.clock import ManualClock
from barnabas.network.requests import Handler, Request
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from tests.support.server import echo, frame, heartbeat, heartbeat_frame, scenario, serving
from tests.support.waiting import async_until


@pytest.mark.parametrize(
    ("api_key", "version"), [(12, 5), (12, -1), (12, 99), (3, 1), (999, 0), (-1, 0), (18, 0)]
)
def test_an_api_or_version_that_is_not_served_closes_the_connection(api_key: int, version: int) -> None:
    @scenario
    async def run() -> None:
        async with serving(heartbeat(echo)) as server:
            client = await server.connect()
            await client.send(struct.pack(">ihhih", 20, api_key, version, 1, -1) + bytes(10))
            assert await client.is_closed()

    run()


@scenario
async def test_a_version_below_the_served_minimum_closes_the_connection_even_if_it_is_advertised() -> None:
    async with serving(Handler(HeartbeatRequest, 2, 4, echo, advertised_min=0)) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1, version=1))
        assert await client.is_closed()


@scenario
async def test_all_versions_of_a_request_are_served_by_one_handler() -> None:
    async with serving(heartbeat(echo)) as server:
        client = await server.connect()
        await client.send(b"".join(heartbeat_frame(version, version=version) for version in range(5)))
        assert await client.correlation_ids(5) == list(range(5))
        counts = server.registry.snapshot()
        name = "kafka_network_requestmetrics_requests_total{request=Heartbeat,version=3}"
        assert counts[name] == 1
        assert counts["kafka_network_requestmetrics_totaltimems_count{request=Heartbeat}"] == 5


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",  # no body behind the header
        b"\x00\x7f" + b"x" * 10,  # a string longer than the request
        b"\x00\xff\xff\xff\xff\xff\xff",  # a varint without end
        b"\x05\x01\x01",  # header tags that are not there
    ],
)
def test_a_request_that_cannot_be_decoded_closes_the_connection(body: bytes) -> None:
    @scenario
    async def run() -> None:
        async with serving(heartbeat(echo)) as server:
            client = await server.connect()
            header = struct.pack(">hhih", 12, 4, 1, 4) + b"test"
            await client.send(struct.pack(">i", len(header + body)) + header + body)
            assert await client.is_closed()

    run()


@pytest.mark.parametrize("length", [-2, 5, 32767])
def test_a_client_id_that_does_not_fit_closes_the_connection(length: int) -> None:
    @scenario
    async def run() -> None:
        async with serving(heartbeat(echo)) as server:
            client = await server.connect()
            await client.send(struct.pack(">ihhih", 14, 12, 0, 1, length) + bytes(4) + heartbeat_frame(2))
            assert await client.is_closed()

    run()


@scenario
async def test_request_has_the_principal_of_its_sender() -> None:
    seen: list[tuple[str | None, int, int]] = []

    def note(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        seen.append((request.client_id, request.version, request.correlation_id))
        return HeartbeatResponse()

    async with serving(heartbeat(note)) as server:
        client = await server.connect()
        message = HeartbeatRequest(group_id="g", member_id="m")
        for number, client_id in enumerate(["one", "one", "two", "größer", None, ""]):
            await client.send(frame(message, 4, number, client_id))
        await client.correlation_ids(6)
    assert [client_id for client_id, _, _ in seen] == ["one", "one", "two", "größer", None, ""]


@scenario
async def test_tagged_fields_in_the_header_are_skipped() -> None:
    async with serving(heartbeat(echo)) as server:
        client = await server.connect()
        body = heartbeat_frame(3, value=8)[4:]
        header, rest = body[:14], body[15:]
        data = header + b"\x02" + b"\x00\x03abc" + b"\x09\x00" + rest
        await client.send(struct.pack(">i", len(data)) + data)
        assert struct.unpack_from(">ibi", await client.response()) == (3, 0, 8)


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_an_exception_in_a_handler_is_logged_and_closes_only_that_connection(
    is_coroutine: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        if message.generation_id:
            raise ZeroDivisionError("our mistake")
        return HeartbeatResponse()

    async def fail_later(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        return fail(broker, request, message)

    @scenario
    async def run() -> None:
        async with serving(heartbeat(fail_later if is_coroutine else fail)) as server:
            client, other = await server.connect(), await server.connect()
            await client.send(heartbeat_frame(1, value=1))
            assert await client.is_closed()
            await other.send(heartbeat_frame(2, value=0))
            assert await other.correlation_ids(1) == [2]

    run()
    assert "our mistake" in caplog.text
    assert "Heartbeat version 4" in caplog.text


def test_slow_requests_are_logged_unless_the_client_requested_a_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    waiting: list[Request] = []

    def defer(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        request.client_wait = float(message.generation_id)
        waiting.append(request)

    @scenario
    async def run() -> None:
        async with serving(heartbeat(defer), clock=clock, slow_request_seconds=1.0) as server:
            client = await server.connect()
            await client.send(heartbeat_frame(1, value=10) + heartbeat_frame(2, value=0))
            await async_until(lambda: len(waiting) == 2)
            clock.advance(5000)
            for request in waiting:
                request.respond(HeartbeatResponse())
            assert await client.correlation_ids(2) == [1, 2]

    with caplog.at_level(logging.WARNING):
        run()
    assert caplog.text.count("slow request") == 1
    assert "5.000 s" in caplog.text


@scenario
async def test_requests_behind_one_that_closes_the_connection_are_not_handled() -> None:
    seen: list[int] = []

    def note(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        seen.append(message.generation_id)
        return HeartbeatResponse()

    async with serving(heartbeat(note)) as server:
        client = await server.connect()
        bad = heartbeat_frame(2)[:-3] + b"\xff\xff\xff"
        await client.send(heartbeat_frame(1, value=1) + bad + heartbeat_frame(3, value=3))
        assert await client.correlation_ids(1) == [1]
        assert await client.is_closed()
    assert seen == [1]


def test_a_response_that_cannot_be_encoded_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    waiting: list[Request] = []

    def defer(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        waiting.append(request)

    @scenario
    async def run() -> None:
        async with serving(heartbeat(defer)) as server:
            client = await server.connect()
            await client.send(heartbeat_frame(1))
            await async_until(lambda: bool(waiting))
            waiting[0].respond(HeartbeatResponse(throttle_time_ms=1 << 40))
            assert await client.is_closed()

    run()
    assert "EncodeError" in caplog.text
