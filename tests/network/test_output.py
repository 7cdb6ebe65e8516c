"""Responses with slices of files."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.files import FileSlice, LocalFile, LocalFileSystem, MemoryFile
from barnabas.network import output
from barnabas.network import page_residency as residency
from barnabas.network.requests import Handler, Request
from barnabas.protocol.codec import decode
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.protocol.messages.groups import HeartbeatResponse
from tests.support.server import Client, frame, heartbeat, heartbeat_frame, scenario, serving
from tests.support.server import echo as echo_handler
from tests.support.waiting import async_until

FILE_BYTES = 5_000_000


@pytest.fixture
def file(tmp_path: Path) -> LocalFile:
    opened = LocalFileSystem().open(str(tmp_path / "segment"), create=True)
    opened.append(random.Random(1).randbytes(FILE_BYTES))
    assert isinstance(opened, LocalFile)
    return opened


def fetch_handler(*slices: FileSlice | bytes) -> Handler:
    def fetch(broker: Any, request: Request, message: FetchRequest) -> FetchResponse:
        partitions = [
            PartitionData(partition_index=number, records=piece) for number, piece in enumerate(slices)
        ]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])

    return Handler(FetchRequest, 4, 12, fetch)


async def fetched(client: Client) -> list[bytes]:
    response = memoryview(await client.response())
    message = decode(FetchResponse, 11, response, 4)[0]
    return [bytes(each.records or b"") for each in message.responses[0].partitions]


def content(file: LocalFile, position: int, length: int) -> bytes:
    return file.read(length, position)


@scenario
async def test_slices_and_bytes_are_sent_in_order(file: LocalFile) -> None:
    handler = fetch_handler(FileSlice(file, 10, 100_000), b"", FileSlice(file, 4_999_999, 1), b"x" * 3000)
    async with serving(handler, heartbeat(echo_handler)) as server:
        client = await server.connect()
        await client.send(frame(FetchRequest(), 11, 1) + heartbeat_frame(2) + frame(FetchRequest(), 11, 3))
        expected = [content(file, 10, 100_000), b"", content(file, 4_999_999, 1), b"x" * 3000]
        assert await fetched(client) == expected
        assert await client.correlation_ids(1) == [2]
        assert await fetched(client) == expected


@scenario
async def test_a_short_slice_in_memory_is_sent_together_with_the_head_of_its_response(
    file: LocalFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*place: int) -> int:
        raise AssertionError("sendfile is too expensive for this")

    monkeypatch.setattr(os, "sendfile", refuse)
    async with serving(fetch_handler(FileSlice(file, 100, 500))) as server:
        client = await server.connect()
        await client.send(frame(FetchRequest(), 11, 1))
        assert await fetched(client) == [content(file, 100, 500)]


@scenario
async def test_large_slice_is_sent_in_chunks_to_a_slow_reader(file: LocalFile) -> None:
    async with serving(fetch_handler(FileSlice(file, 0, FILE_BYTES)), heartbeat(echo_handler)) as server:
        client, other = await server.connect(), await server.connect()
        await client.send(frame(FetchRequest(), 11, 1) + frame(FetchRequest(), 11, 2))
        await async_until(lambda: any(each.output for each in server.server.connections))
        await other.send(heartbeat_frame(9))
        assert await other.correlation_ids(1) == [9]
        for _ in range(2):
            (data,) = await fetched(client)
            assert hashlib.sha256(data).digest() == hashlib.sha256(content(file, 0, FILE_BYTES)).digest()


@scenario
async def test_slices_of_memory_are_sent_like_those_of_files_without_a_descriptor(file: LocalFile) -> None:
    memory = MemoryFile("chunk", file.read(FILE_BYTES, 0))
    parts = [(10, 100), (0, FILE_BYTES), (FILE_BYTES - 1, 1)]
    handler = fetch_handler(*(FileSlice(memory, *part) for part in parts))
    async with serving(handler) as server:
        client = await server.connect()
        await client.send(frame(FetchRequest(), 11, 1))
        assert await fetched(client) == [content(file, *part) for part in parts]


@scenario
async def test_a_cold_slice_is_read_by_a_thread_while_others_are_served(
    file: LocalFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    gate = asyncio.Event()
    warmed: list[tuple[int, int]] = []

    def slow_disk(fd: int, position: int, count: int) -> None:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
        warmed.append((position, count))

    monkeypatch.setattr(output, "is_cached", lambda *place: False)
    monkeypatch.setattr(output, "warm", slow_disk)
    async with serving(fetch_handler(FileSlice(file, 100, 2_500_000)), heartbeat(echo_handler)) as server:
        client, other = await server.connect(), await server.connect()
        await client.send(frame(FetchRequest(), 11, 1))
        await other.send(heartbeat_frame(9))
        assert await other.correlation_ids(1) == [9]
        assert not warmed
        gate.set()
        assert await fetched(client) == [content(file, 100, 2_500_000)]
    assert warmed[0] == (100, residency.WARMED_AT_ONCE)
    assert sum(count for _, count in warmed) >= 2_500_000


@scenario
async def test_a_client_may_leave_while_its_slice_is_read(
    file: LocalFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    gate = asyncio.Event()
    warmed: list[int] = []

    def slow_disk(fd: int, position: int, count: int) -> None:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
        warmed.append(position)

    monkeypatch.setattr(output, "is_cached", lambda *place: False)
    monkeypatch.setattr(output, "warm", slow_disk)
    async with serving(fetch_handler(FileSlice(file, 0, 100_000))) as server:
        client = await server.connect()
        await client.send(frame(FetchRequest(), 11, 1))
        await async_until(lambda: any(each.output for each in server.server.connections))
        [connection] = server.server.connections
        client.abort()
        await server.connections_become(0)
        gate.set()
        await async_until(lambda: bool(warmed))
        assert connection.closed
        assert not server.server.connections


@scenario
async def test_a_disk_that_fails_closes_the_connection(
    file: LocalFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_disk(fd: int, position: int, count: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(output, "is_cached", lambda *place: False)
    monkeypatch.setattr(output, "warm", broken_disk)
    async with serving(fetch_handler(FileSlice(file, 0, 100_000))) as server:
        client = await server.connect()
        await client.send(frame(FetchRequest(), 11, 1))
        (length,) = struct.unpack(">i", await client.reader.readexactly(4))
        with pytest.raises(asyncio.IncompleteReadError):
            await client.reader.readexactly(length)


@scenario
async def test_an_answer_without_bytes_costs_no_system_call() -> None:
    waiting: list[Request] = []
    async with serving(heartbeat(lambda broker, request, message: waiting.append(request))) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1) + heartbeat_frame(2))
        await async_until(lambda: len(waiting) == 2)
        sent: list[bytes] = []
        output = waiting[0].connection.output
        output._send = lambda data, flags: sent.append(bytes(data)) or len(data)  # type: ignore[func-returns-value]
        waiting[0].respond_nothing()
        assert not sent
        waiting[1].respond(HeartbeatResponse())
        assert len(sent) == 1


@scenario
async def test_a_file_that_was_cut_under_a_slice_closes_the_connection(file: LocalFile) -> None:
    async with serving(fetch_handler(FileSlice(file, 0, FILE_BYTES + 10))) as server:
        client = await server.connect()
        await client.send(frame(FetchRequest(), 11, 1))
        (length,) = struct.unpack(">i", await client.reader.readexactly(4))
        with pytest.raises(asyncio.IncompleteReadError):
            await client.reader.readexactly(length)


@scenario
async def test_connections_that_have_yet_to_send_slices_of_a_log_are_found_and_closed(
    file: LocalFile,
) -> None:
    folder = os.path.dirname(file.path)
    async with serving(fetch_handler(FileSlice(file, 0, FILE_BYTES)), heartbeat(echo_handler)) as server:
        client, other = await server.connect(), await server.connect()
        await client.send(b"".join(frame(FetchRequest(), 11, number) for number in range(4)))
        await async_until(lambda: any(each.output for each in server.server.connections))
        server.server.log_truncated(folder + "-other")
        await asyncio.sleep(0)
        assert len(server.server.connections) == 2
        server.server.log_truncated(folder)
        await asyncio.sleep(0)
        assert len(server.server.connections) == 1
        assert server.server.closed == {"truncated": 1}
        await other.send(heartbeat_frame(9))
        assert await other.correlation_ids(1) == [9]


@scenario
async def test_a_slice_in_an_answer_that_waits_for_an_earlier_one_counts_too(file: LocalFile) -> None:
    waiting: list[Request] = []
    fetch = fetch_handler(FileSlice(file, 0, 100_000))
    async with serving(fetch, heartbeat(lambda broker, request, message: waiting.append(request))) as server:
        client = await server.connect()
        await client.send(heartbeat_frame(1) + frame(FetchRequest(), 11, 2))
        await async_until(lambda: bool(waiting) and len(waiting[0].connection.unanswered) == 2)
        server.server.log_truncated(os.path.dirname(file.path))
        assert await client.is_closed()


@scenario
async def test_a_slice_keeps_its_file_open_until_it_is_sent(tmp_path: Path) -> None:
    files = LocalFileSystem()
    path = str(tmp_path / "removed")
    opened = files.open(path, create=True)
    opened.append(bytes(4_000_000))
    pieces = [FileSlice(opened, 0, 4_000_000)]
    del opened

    def fetch(broker: Any, request: Request, message: FetchRequest) -> FetchResponse:
        partition = PartitionData(records=pieces.pop())
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])

    async with serving(Handler(FetchRequest, 4, 12, fetch)) as server:
        client = await server.connect()
        await client.send(frame(FetchRequest(), 11, 1))
        await async_until(lambda: not pieces)
        files.remove(path)
        assert await fetched(client) == [bytes(4_000_000)]


@pytest.mark.skipif(
    not hasattr(os, "posix_fadvise"), reason="only Linux can be asked to drop pages from its cache"
)
def test_data_outside_the_page_cache_is_detected(file: LocalFile) -> None:
    fd = file.fileno()
    os.fsync(fd)
    assert residency.is_cached(fd, 0, 1000)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    if residency.is_cached(fd, 1_000_000, 1000):
        pytest.skip("this file system keeps its pages whatever it is told")
    residency.warm(fd, 1_000_000, 1000)
    assert residency.is_cached(fd, 1_000_000, 1000)
    assert not residency.is_cached(fd, 0, FILE_BYTES)


def test_without_a_way_to_ask_only_the_tail_of_a_file_counts_as_cached(
    file: LocalFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residency, "_NOWAIT", None)
    assert not residency.is_cached(file.fileno(), 0, 10)
    assert not residency.is_cached(file.fileno(), 0, 10, file.size)
    assert residency.is_cached(file.fileno(), file.size - 10, 10, file.size)
