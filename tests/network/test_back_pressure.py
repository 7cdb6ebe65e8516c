"""A client that reads slowly, or requests more than the memory limit, delays only itself."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import pytest

from barnabas.common.clock import ManualClock
from barnabas.network.limits import QUEUED_OUTPUT_BYTES, UNANSWERED_REQUESTS, Limits
from barnabas.network.requests import Handler, Request
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.support.server import Harness, echo, frame, heartbeat, heartbeat_frame, scenario, serving
from tests.support.waiting import async_until

LARGE = 200_000


def large_answer(broker: Any, request: Request, message: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(topics=[MetadataResponseTopic(name="t" * 20_000) for _ in range(10)])


@scenario
async def test_a_slow_reader_does_not_make_memory_grow() -> None:
    async with serving(Handler(MetadataRequest, 0, 12, large_answer), heartbeat(echo)) as server:
        client, other = await server.connect(), await server.connect()
        client.reader._limit = 1  # type: ignore[attr-defined]  # the client's own buffer stays small, too
        requests = b"".join(frame(MetadataRequest(), 9, number) for number in range(300))
        sending = asyncio.create_task(client.send(requests))
        await async_until(
            lambda: any(each.output.queued_bytes > QUEUED_OUTPUT_BYTES for each in server.server.connections)
        )
        for number in range(20):  # the others do not notice
            await other.send(heartbeat_frame(number))
            assert await other.correlation_ids(1) == [number]
        queued = max(each.output.queued_bytes for each in server.server.connections)
        assert queued <= QUEUED_OUTPUT_BYTES + LARGE + 1000
        assert await client.correlation_ids(300) == list(range(300))
        await sending
        assert server.server.memory.used == 0


@scenario
async def test_a_connection_with_many_unanswered_requests_is_not_read_until_they_are_answered() -> None:
    waiting: list[Request] = []

    def defer(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        waiting.append(request)

    async with serving(heartbeat(defer)) as server:
        client = await server.connect()
        await client.send(b"".join(map(heartbeat_frame, range(200))))
        await async_until(lambda: len(waiting) >= UNANSWERED_REQUESTS)
        await asyncio.sleep(0.01)
        assert len(waiting) == UNANSWERED_REQUESTS
        answered = 0
        while answered < 200:
            await async_until(lambda: len(waiting) > answered)  # noqa: B023
            waiting[answered].respond(HeartbeatResponse())
            answered += 1
        assert await client.correlation_ids(200) == list(range(200))


@scenario
async def test_requests_that_find_no_memory_wait_and_go_on_when_there_is_some() -> None:
    async with serving(heartbeat(echo), limits=Limits(queued_bytes=50_000)) as server:
        holder, waiter, small = [await server.connect() for _ in range(3)]
        begun = heartbeat_frame(1, group="x" * 30_000)
        await holder.send(begun[:1000])
        await async_until(lambda: server.server.memory.used > 30_000)
        also = heartbeat_frame(2, group="y" * 30_000)
        await waiter.send(also[:1000])
        await async_until(lambda: server.server.memory.waiting == 1)
        await waiter.send(also[1000:])
        await small.send(heartbeat_frame(3))
        assert await small.correlation_ids(1) == [3]  # complete on arrival, needs no memory of the pool
        await holder.send(begun[1000:])
        assert await holder.correlation_ids(1) == [1]
        assert await waiter.correlation_ids(1) == [2]
        await async_until(lambda: server.server.memory.used == 0)


@scenario
async def test_cancelled_memory_waiter_does_not_block_the_next() -> None:
    async with serving(heartbeat(echo), limits=Limits(queued_bytes=50_000)) as server:
        holder, leaver, waiter = [await server.connect() for _ in range(3)]
        await holder.send(struct.pack(">i", 40_000) + bytes(100))
        await async_until(lambda: server.server.memory.used > 40_000)
        await leaver.send(struct.pack(">i", 45_000) + bytes(100))
        await async_until(lambda: server.server.memory.waiting == 1)
        await waiter.send(struct.pack(">i", 30_000) + bytes(100))
        await async_until(lambda: server.server.memory.waiting == 2)
        (paused,) = [each for each in server.server.connections if each.peer[1] == port_of(leaver.writer)]
        paused.close("gone")
        holder.abort()
        await async_until(lambda: server.server.memory.used == 30_004)
        waiter.abort()
        await server.connections_become(0)
        assert server.server.memory.used == 0


def port_of(writer: asyncio.StreamWriter) -> int:
    port: int = writer.get_extra_info("sockname")[1]
    return port


@scenario
async def test_no_connection_exceeds_its_share_of_an_iteration() -> None:
    order: list[str | None] = []

    def note(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        order.append(message.group_id)
        return HeartbeatResponse()

    async with serving(heartbeat(note)) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        await server.connections_become(2)
        # Both are readable before the next select.
        clients[0].sendall(b"".join(heartbeat_frame(number, group="many") for number in range(500)))
        clients[1].sendall(heartbeat_frame(1, group="one"))
        await async_until(lambda: len(order) == 501)
        assert order.index("one") <= 64
        for client in clients:
            client.close()


# Frames that hold memory


def clients_of(address: str, server: Harness, count: int, data: bytes) -> list[socket.socket]:
    """Connections from one of the addresses that loopback has, each of which sends the same."""
    place = ("127.0.0.1", server.port)
    clients = [socket.create_connection(place, source_address=(address, 0)) for _ in range(count)]
    for client in clients:
        client.sendall(data)
    return clients


@scenario
async def test_requests_that_announce_much_and_send_little_block_no_other() -> None:
    async with serving(heartbeat(echo)) as server:
        hostile = [await server.connect() for _ in range(3)]
        for client in hostile:
            await client.send(struct.pack(">i", 100 << 20) + bytes(50))
        await async_until(lambda: server.server.memory.used > 0)
        assert server.server.memory.used < 1 << 20
        clients = [await server.connect() for _ in range(3)]
        for client, size in zip(clients, (20_000, 130_000, 900_000), strict=True):
            data = large_frame(7, size)
            await client.send(data[:1000])
            await client.send(data[1000:])
        for client in clients:
            assert await client.correlation_ids(1) == [7]
        assert server.server.memory.waiting == 0


def large_frame(correlation_id: int, size: int) -> bytes:
    """A heartbeat of any length: unknown fields are skipped."""
    complete = frame(HeartbeatRequest(group_id="g", member_id="m"), 4, correlation_id)
    body = complete[4:-1] + b"\x01\x63" + unsigned_varint(size) + bytes(size)
    return struct.pack(">i", len(body)) + body


def unsigned_varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + unsigned_varint(rest) if rest else bytes([low])


@scenario
async def test_a_request_much_larger_than_its_first_reservation_arrives_whole() -> None:
    async with serving(heartbeat(echo)) as server:
        client = await server.connect()
        for size in (2_000_000, 20_000_000):
            await client.send(large_frame(1, size) + heartbeat_frame(2))
            assert await client.correlation_ids(2) == [1, 2]
        assert server.server.memory.used == 0


@scenario
async def test_many_large_requests_share_a_small_pool() -> None:
    async with serving(heartbeat(echo), limits=Limits(queued_bytes=2 << 20)) as server:
        clients = [await server.connect() for _ in range(8)]
        sending = [asyncio.create_task(client.send(large_frame(1, 3_000_000))) for client in clients]
        limit = 0
        await async_until(lambda: server.server.memory.waiting > 0)
        for client in clients:
            assert await client.correlation_ids(1) == [1]
            limit = max(limit, server.server.memory.used)
        await asyncio.gather(*sending)
        assert limit < (2 << 20) + 3_100_000 + 8 * (1 << 20)
        assert (server.server.memory.used, server.server.memory.waiting) == (0, 0)


@scenario
async def test_the_slow_are_closed_when_others_wait_for_their_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = Limits(queued_bytes=2 << 20, queued_bytes_per_address=1 << 20, short_frame_seconds=2.0)
    clock = ManualClock()
    begun = struct.pack(">i", 250_000) + bytes(50)
    async with serving(heartbeat(echo), limits=limits, clock=clock) as server:
        memory = server.server.memory
        hostile = clients_of("127.0.0.2", server, 4, begun) + clients_of("127.0.0.3", server, 3, begun)
        await async_until(lambda: memory.used == 7 * 250_004)
        client = await server.connect()
        data = large_frame(1, 200_000)
        await client.send(data[:1000])
        await async_until(lambda: memory.waiting == 1)
        clock.advance(1900)
        server.server.connections.evict_slow(clock.monotonic())
        assert memory.waiting == 1  # no client is that slow yet
        clock.advance(200)
        await client.send(data[1000:])
        assert await client.correlation_ids(1) == [1]
        assert server.server.closed == {"evicted": 1}  # no more than was needed
        for each in hostile:
            each.close()
        assert "other requests wait for memory held by an incomplete request" in caplog.text


@scenario
async def test_one_address_waits_for_its_own_share_and_others_do_not_notice() -> None:
    limits = Limits(queued_bytes=4 << 20, queued_bytes_per_address=1 << 20)
    begun = struct.pack(">i", 250_000) + bytes(50)
    async with serving(heartbeat(echo), limits=limits) as server:
        memory = server.server.memory
        hostile = clients_of("127.0.0.2", server, 10, begun)
        await async_until(lambda: memory.waiting == 6)
        client = await server.connect()
        data = large_frame(1, 200_000)
        await client.send(data[:1000])
        await client.send(data[1000:])
        assert await client.correlation_ids(1) == [1]
        assert len(server.server.connections) == 11
        for each in hostile:
            each.close()
        await server.connections_become(1)
        assert (memory.used, memory.waiting) == (0, 0)


@scenario
async def test_requests_behind_unanswered_ones_release_their_memory() -> None:
    limits = Limits(queued_bytes=400_000, frame_seconds=30.0)
    clock = ManualClock()

    def never(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse | None:
        return None if message.generation_id else HeartbeatResponse()

    async with serving(heartbeat(never), limits=limits, clock=clock) as server:
        piled = b"".join(heartbeat_frame(1, value=1, group="x" * 200) for _ in range(1000))
        hostile = [await server.connect() for _ in range(20)]
        sending = [asyncio.create_task(each.send(piled)) for each in hostile]
        await async_until(lambda: server.server.memory.used > 400_000)
        client = await server.connect()
        data = large_frame(1, 200_000)
        await client.send(data[:1000])
        await async_until(lambda: server.server.memory.waiting == 1)
        clock.advance(31_000)
        await client.send(data[1000:])
        assert await client.correlation_ids(1) == [1]
        assert 1 <= server.server.closed["evicted"] < 20
        await asyncio.gather(*sending, return_exceptions=True)


@pytest.mark.parametrize("waits", [False, True])
def test_a_system_that_has_no_memory_costs_a_connection_and_nothing_else(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, size: int, flags: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    @scenario
    async def run() -> None:
        monkeypatch.setattr("barnabas.network.memory_pool.mmap.mmap", refuse)
        async with serving(heartbeat(echo), limits=Limits(queued_bytes=1 << 20)) as server:
            holders = [await server.connect() for _ in range(4 if waits else 0)]
            for holder in holders:
                await holder.send(struct.pack(">i", 220_000) + bytes(100))
            await async_until(lambda: server.server.memory.used == len(holders) * 220_004)
            client = await server.connect()
            await client.send(struct.pack(">i", 5 << 20) + bytes(100))
            if waits:
                await async_until(lambda: server.server.memory.waiting == 1)
            for holder in holders:
                holder.abort()
            assert await client.is_closed()
            await server.connections_become(0)
            assert (server.server.memory.used, server.server.memory.waiting) == (0, 0)
            assert server.server.closed == {"overfull": 1}

    run()


@scenario
async def test_more_than_twice_the_memory_is_never_taken_by_requests_that_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("barnabas.network.memory_pool.OVERFULL_BYTES", 0)

    def never(broker: Any, request: Request, message: HeartbeatRequest) -> None:
        return None

    async with serving(heartbeat(never), limits=Limits(queued_bytes=100_000)) as server:
        piled = b"".join(heartbeat_frame(1, group="x" * 200) for _ in range(400))
        clients = [await server.connect() for _ in range(10)]
        sending = [asyncio.create_task(client.send(piled)) for client in clients]
        await async_until(lambda: server.server.closed["overfull"] > 0)
        assert server.server.memory.used <= 200_000
        assert "send fewer at once" in caplog.text
        await asyncio.gather(*sending, return_exceptions=True)
