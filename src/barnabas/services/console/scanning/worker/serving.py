"""Main loop of a search process: jobs on its input, answers on its output; exits when its input closes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from barnabas.client import Client, ClientError
from barnabas.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, OffsetRange, end_offsets
from barnabas.client.schemas import RegistryAccount
from barnabas.common.child_process import PIPE_BYTES, read_frame
from barnabas.common.errors import KafkaError
from barnabas.common.pipe_channel import frame
from barnabas.common.types import TopicPartition
from barnabas.filters import FilterError
from barnabas.services.console.scanning.login import unpack
from barnabas.services.console.scanning.messages import (
    CREDITS,
    Answer,
    CancelScan,
    ExportChunk,
    ExportJob,
    Job,
    Range,
    RawJob,
    ReportJob,
    RunScan,
    ScanDone,
    ScanHits,
    SearchJob,
    TailJob,
    Taken,
    decode_request,
    encode,
)
from barnabas.services.console.scanning.model import Hit, Search, SearchError, SearchFailedError
from barnabas.services.console.scanning.worker.exporting import export, raw_record, whole_value
from barnabas.services.console.scanning.worker.reader import FetchedSection, fetching
from barnabas.services.console.scanning.worker.reporter import report
from barnabas.services.console.scanning.worker.searching import Looker, Searching, Send
from barnabas.services.console.scanning.worker.showing import RegistryReader, Schemas
from barnabas.services.console.scanning.worker.turns import FairTurns

# -- Tail: records appended since the last tick, up to a row limit; skipped records are counted -------

TICK_SECONDS = 0.5
MAX_OFFSETS = 20_000
"""Limit per partition and tick: 40,000 records a second are searched, further ones are skipped."""
MAX_BYTES = 8 << 20


class TailRun:
    def __init__(
        self, client: Client, job: TailJob, schemas: Schemas | None, send: Send, number: int
    ) -> None:
        self._client, self._search = client, job.search
        self._send, self._number = send, number
        self._most = max(1, int(job.rows_per_second * TICK_SECONDS))
        self._looker = Looker(job.search, schemas)
        self._ends = {TopicPartition(job.search.topic, index): end for index, end in job.ends.items()}
        self._skipped = 0

    async def run(self) -> None:
        while True:
            began = asyncio.get_running_loop().time()
            await self._tick()
            await asyncio.sleep(max(0.0, began + TICK_SECONDS - asyncio.get_running_loop().time()))

    async def _tick(self) -> None:
        isolation = READ_COMMITTED if self._search.committed else READ_UNCOMMITTED
        ends = await end_offsets(self._client, self._ends, isolation)
        ranges = []
        for tp, end in ends.items():
            first = max(self._ends[tp], end - MAX_OFFSETS)
            self._skipped += max(0, first - self._ends[tp])
            if first < end:
                ranges.append(OffsetRange(tp, first, end))
        self._ends.update({tp: max(end, self._ends[tp]) for tp, end in ends.items()})
        records, size, hits = await self._read(ranges) if ranges else (0, 0, [])
        positions = {tp.partition: end for tp, end in self._ends.items()}
        answer = ScanHits(self._number, hits, positions, {}, records, size, skipped=self._skipped)
        self._skipped = 0
        await self._send(answer)

    async def _read(self, ranges: list[OffsetRange]) -> tuple[int, int, list[Hit]]:
        """(records, bytes, hits); records beyond the byte limit are skipped."""
        records, size, hits = 0, 0, list[Hit]()
        left = {part.tp: part.size for part in ranges}
        async with fetching(self._client, ranges, self._search.committed, lambda what: None) as fetcher:
            while not fetcher.is_done and size < MAX_BYTES:
                for found in await fetcher.next():
                    section = FetchedSection(*found)
                    size += section.bytes
                    left[section.tp] = max(0, found.until - found.planned.next_offset)
                    for part in section.parts():
                        looked = await self._looker.look(part, section.tp.partition, self._most)
                        records += looked.records
                        hits = self._newest([*hits, *looked.hits])
                        self._skipped += looked.matched - len(looked.hits)
            self._skipped += 0 if fetcher.is_done else sum(left.values())
        return records, size, hits

    def _newest(self, hits: list[Hit]) -> list[Hit]:
        self._skipped += max(0, len(hits) - self._most)
        return sorted(hits, key=lambda hit: hit.timestamp)[-self._most :]


# -- Kafka clients of a search process: one per login, closed when idle -------------------------------

IDLE_SECONDS = 60.0
MAX = 16


@dataclass
class _Kept:
    client: Client
    users: int = 0
    closing: asyncio.TimerHandle | None = field(default=None, repr=False)


class ClientPool:
    """Keyed by the whole login, password included, so that connections are never shared between users."""

    def __init__(self) -> None:
        self._kept: dict[bytes, _Kept] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def borrow(self, login: bytes) -> Client:
        kept = self._kept.get(login)
        if kept is None:
            self._make_room()
            requested = unpack(login)
            kept = _Kept(
                Client(requested.bootstrap, client_id="barnabas-console", security=requested.security)
            )
            self._kept[login] = kept
        if kept.closing is not None:
            kept.closing.cancel()
        kept.users += 1
        return kept.client

    def give_back(self, login: bytes) -> None:
        kept = self._kept[login]
        kept.users -= 1
        if not kept.users:
            kept.closing = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop, login)

    def _make_room(self) -> None:
        if len(self._kept) >= MAX:
            idle = [login for login, kept in self._kept.items() if not kept.users]
            for login in idle[:1]:
                self._drop(login)

    def _drop(self, login: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._kept.pop(login).client.close())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


MAX_JOBS, MAX_EXPORTS = 8, 4
TIMEOUT = 10.0
USER_SHARE = 0.75
"""Share of them that one user may have, so that there is room for another one at once."""
_UNLIMITED = 1 << 30


class ScanServer:
    """Runs jobs concurrently; a job pauses while its answers are unread."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._clients = ClientPool()
        self._registries: dict[RegistryAccount, RegistryReader] = {}
        self._jobs: dict[int, asyncio.Task[None]] = {}
        self._credits: dict[int, asyncio.Semaphore] = {}
        self._tails = FairTurns(_UNLIMITED)
        self._others, self._exports = (
            FairTurns(limit, int(limit * USER_SHARE)) for limit in (MAX_JOBS, MAX_EXPORTS)
        )

    def hear(self, message: RunScan | CancelScan | Taken) -> None:
        number = message.number
        if isinstance(message, RunScan):
            self._credits[number] = asyncio.Semaphore(CREDITS)
            task = asyncio.get_running_loop().create_task(self._run(message))
            self._jobs[number] = task
            task.add_done_callback(lambda _: self._forget(number))
        elif isinstance(message, CancelScan) and number in self._jobs:
            self._jobs[number].cancel()
        elif isinstance(message, Taken) and number in self._credits:
            self._credits[number].release()

    def _forget(self, number: int) -> None:
        del self._jobs[number], self._credits[number]

    async def _run(self, message: RunScan) -> None:
        done = ScanDone(message.number)
        try:
            async with self._turn(message.job):
                notes = await self._work(message)
            done = ScanDone(message.number, notes=notes)
        except asyncio.CancelledError:
            return
        except FilterError as error:
            done = ScanDone(message.number, str(error), "where")
        except SearchError as error:
            done = ScanDone(message.number, str(error), error.field)
        except (ClientError, KafkaError, SearchFailedError, ValueError) as error:
            done = ScanDone(message.number, str(error) or type(error).__name__)
        except Exception as error:
            done = ScanDone(message.number, f"the search failed: {type(error).__name__}: {error}")
        await self._write(encode(done))

    @asynccontextmanager
    async def _turn(self, job: Job) -> AsyncIterator[None]:
        """Limit concurrent jobs: each buffers about ten megabytes of fetched data. Tails are not limited."""
        turns = (
            self._tails
            if isinstance(job, TailJob)
            else self._exports
            if isinstance(job, ExportJob)
            else self._others
        )
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(TIMEOUT):
                    await stack.enter_async_context(turns.turn(job.search.user))
            except TimeoutError:
                raise SearchFailedError(
                    "too many searches and exports are running: try again in a moment"
                ) from None
            yield

    async def _work(self, message: RunScan) -> list[str]:
        client = self._clients.borrow(message.login)
        try:
            job, send = message.job, self._sender(message.number)
            schemas = self._schemas(message.registry, job.search)
            if isinstance(job, TailJob):
                await TailRun(client, job, schemas, send, message.number).run()
                return []
            ranges = _ranges(job.search.topic, job.ranges)
            if isinstance(job, SearchJob):
                searching = Searching(client, job.search, ranges, schemas, send, message.number)
                await searching.run()
                return searching.notes
            if isinstance(job, ReportJob):
                found = await report(client, job, ranges, schemas)
                await send(ExportChunk(message.number, msgspec.json.encode(found)))
                return []
            if isinstance(job, ExportJob):
                pieces = export(client, job, ranges, schemas)
            elif isinstance(job, RawJob):
                pieces = raw_record(client, job.search, ranges)
            else:
                pieces = whole_value(client, job.search, ranges)
            async for data in pieces:
                await send(ExportChunk(message.number, data))
            return []
        finally:
            self._clients.give_back(message.login)

    def _sender(self, number: int) -> Callable[[ScanHits | ExportChunk], Awaitable[None]]:
        async def send(answer: Answer) -> None:
            await self._credits[number].acquire()
            await self._write(encode(answer))

        return send

    def _schemas(self, registry: RegistryAccount, search: Search) -> Schemas | None:
        if not registry.url:
            return None
        if registry not in self._registries:
            self._registries[registry] = RegistryReader(registry)
        return Schemas(self._registries[registry], search)


def _ranges(topic: str, values: list[Range]) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition(topic, one.partition), one.first, one.until) for one in values]


async def serve() -> None:
    """Serve on stdin and stdout; any other output to stdout is redirected to stderr."""
    loop = asyncio.get_running_loop()
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=PIPE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), answers
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def write(data: bytes) -> None:
        writer.write(frame(data))
        await writer.drain()

    server = ScanServer(write)
    try:
        while True:
            server.hear(decode_request(await read_frame(reader)))
    except (asyncio.IncompleteReadError, ConnectionError):
        return  # the console exited
