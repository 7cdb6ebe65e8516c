"""A client that is slow to read, or asks for more than there is memory, slows itself down and nobody else."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from barnabas.server.dispatch import Handler, Request
from barnabas.server.limits import QUEUED_OUTPUT_BYTES, UNANSWERED_REQUESTS, Limits
from tests.server.harness import echo, frame, heartbeat, heartbeat_frame, scenario, serving, until

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
        await until(
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
        await until(lambda: len(waiting) >= UNANSWERED_REQUESTS)
        await asyncio.sleep(0.01)
        assert len(waiting) == UNANSWERED_REQUESTS
        answered = 0
        while answered < 200:
            await until(lambda: len(waiting) > answered)  # noqa: B023
            waiting[answered].respond(HeartbeatResponse())
            answered += 1
        assert await client.correlation_ids(200) == list(range(200))


@scenario
async def test_requests_that_find_no_memory_wait_and_go_on_when_there_is_some() -> None:
    async with serving(heartbeat(echo), limits=Limits(queued_bytes=50_000)) as server:
        holder, waiter, small = [await server.connect() for _ in range(3)]
        begun = heartbeat_frame(1, group="x" * 30_000)
        await holder.send(begun[:1000])
        await until(lambda: server.server.memory.used > 30_000)
        also = heartbeat_frame(2, group="y" * 30_000)
        await waiter.send(also[:1000])
        await until(lambda: bool(server.server.memory._waiting))
        await waiter.send(also[1000:])
        await small.send(heartbeat_frame(3))
        assert await small.correlation_ids(1) == [3]  # complete on arrival, needs no memory of the pool
        await holder.send(begun[1000:])
        assert await holder.correlation_ids(1) == [1]
        assert await waiter.correlation_ids(1) == [2]
        await until(lambda: server.server.memory.used == 0)


@scenario
async def test_one_who_waits_for_memory_and_leaves_does_not_block_the_next() -> None:
    async with serving(heartbeat(echo), limits=Limits(queued_bytes=50_000)) as server:
        holder, leaver, waiter = [await server.connect() for _ in range(3)]
        await holder.send(struct.pack(">i", 40_000) + bytes(100))
        await until(lambda: server.server.memory.used > 40_000)
        await leaver.send(struct.pack(">i", 45_000) + bytes(100))
        await until(lambda: bool(server.server.memory._waiting))
        await waiter.send(struct.pack(">i", 30_000) + bytes(100))
        await until(lambda: len(server.server.memory._waiting) == 2)
        (paused,) = [each for each in server.server.connections if each.peer[1] == port_of(leaver.writer)]
        paused.close("gone")
        holder.abort()
        await until(lambda: server.server.memory.used == 30_004)
        waiter.abort()
        await server.connections_become(0)
        assert server.server.memory.used == 0


def port_of(writer: asyncio.StreamWriter) -> int:
    port: int = writer.get_extra_info("sockname")[1]
    return port


@scenario
async def test_no_connection_gets_more_than_its_share_of_a_turn() -> None:
    order: list[str | None] = []

    def note(broker: Any, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
        order.append(message.group_id)
        return HeartbeatResponse()

    async with serving(heartbeat(note)) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        await server.connections_become(2)
        # Both are readable before the loop looks again.
        clients[0].sendall(b"".join(heartbeat_frame(number, group="many") for number in range(500)))
        clients[1].sendall(heartbeat_frame(1, group="one"))
        await until(lambda: len(order) == 501)
        assert order.index("one") <= 64
        for client in clients:
            client.close()
