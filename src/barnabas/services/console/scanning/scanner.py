"""Searches of one cluster: assigns offset ranges to the processes of the pool and merges their hits.

Rights: READ and DESCRIBE on the topic, checked by the brokers. `client` has the login of the user, and so have the
search processes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

import msgspec

from barnabas.client import Client, FetchSettings, fetch
from barnabas.client.offsets import end_offsets
from barnabas.client.schemas import NO_ACCOUNT, RegistryAccount
from barnabas.common.regex import PatternError, compile_pattern
from barnabas.common.types import TopicPartition
from barnabas.filters import Filter, FilterError
from barnabas.records import Record, iterate_records
from barnabas.records.batch import iterate_headers
from barnabas.services.console.errors import ResourceNotFoundError
from barnabas.services.console.scanning.bounds import ScanBounds, find_bounds
from barnabas.services.console.scanning.continuation import decode_positions, encode_positions
from barnabas.services.console.scanning.login import login_of, registry_of
from barnabas.services.console.scanning.merging import HitMerge
from barnabas.services.console.scanning.messages import (
    ExportChunk,
    ExportJob,
    Range,
    RawJob,
    ReportJob,
    ScanDone,
    ScanHits,
    SearchJob,
    TailJob,
    ValueJob,
)
from barnabas.services.console.scanning.model import (
    MAX_HITS,
    RECORD_NOT_FOUND,
    Decode,
    Hit,
    Hits,
    RawRecord,
    ScanBudget,
    ScanEnd,
    ScanProgress,
    Search,
    SearchError,
    SearchEvent,
    SearchFailedError,
    Skipped,
)
from barnabas.services.console.scanning.process import Pool, SearchProcess
from barnabas.services.console.scanning.worker.showing import Viewer

PROGRESS_SECONDS = 0.2
ROWS_PER_SECOND = 50
MAX_TEXT = 4096
MAX_REPORTED = 200_000
MAX_EXPORTED = 1_000_000
SINGLE_BYTES = 2 << 20


class Scanner:
    def __init__(
        self,
        pool: Pool,
        registry: RegistryAccount = NO_ACCOUNT,
        budget: ScanBudget | None = None,
        *,
        registry_by_user: bool = False,
    ) -> None:
        self._pool, self.registry, self._by_user = pool, registry, registry_by_user
        self._budget = budget or ScanBudget()

    def warm(self) -> None:
        """Start a process ahead of the next search, without waiting for it."""
        self._pool.warm()

    async def search(self, client: Client, search: Search) -> AsyncGenerator[SearchEvent, None]:
        """Yield hits as they are found, progress five times a second, and a `ScanEnd`. Closing cancels the search."""
        check(search)
        bounds = await find_bounds(client, search)
        ranges = _as_ranges(bounds)
        run = _Run(search, ranges, self._budget, bounds.notes)
        if ranges:
            async with aclosing(self._answers(client, search, ranges)) as answers:
                async for event in run.follow(answers):
                    yield event
        for event in run.end():
            yield event

    async def record(self, client: Client, search: Search) -> Hit | None:
        """Return the record found by a search for one offset of one partition."""
        if not self._pool.is_warm:
            self.warm()
            found = await read_single(client, search, has_registry=self._registry(client).is_located)
            if found is not None:
                return found
        async with aclosing(self.search(client, search)) as events:
            async for event in events:
                if isinstance(event, Hits):
                    return event.rows[0]
                if isinstance(event, ScanEnd) and event.reason == "budget":
                    raise SearchFailedError("the record was not read in time; try again")
        return None

    async def tail(self, client: Client, search: Search) -> AsyncGenerator[Hits | Skipped, None]:
        """Yield new records from now on. Records since `continue_at` are counted as skipped, not read."""
        check(search)
        partitions = await client.partitions([search.topic])
        wanted = [tp for tp in partitions if not search.partitions or tp.partition in search.partitions]
        ends = {
            tp.partition: end
            for tp, end in (await end_offsets(client, wanted, int(search.committed))).items()
        }
        if gap := _gap(search.continue_at, ends):
            yield Skipped(gap)
        job = TailJob(search, ends, ROWS_PER_SECOND)
        (process,) = self._pool.choose(1)
        async with aclosing(process.run(await login_of(client), self._registry(client), job)) as answers:
            async for answer in answers:
                if isinstance(answer, ScanHits):
                    if answer.skipped:
                        yield Skipped(answer.skipped)
                    yield Hits(answer.hits, encode_positions(answer.positions))

    async def export(self, client: Client, search: Search, form: str) -> AsyncGenerator[bytes, None]:
        """Yield a file in the format `json`, `csv` or `parquet`."""
        check(search, limit=MAX_EXPORTED)
        ranges = await _ranges(client, search)
        async for data in self._chunks(client, ExportJob(search, ranges, form)):
            yield data

    async def report(
        self, client: Client, search: Search, most_keys: int, points: int, seconds: float
    ) -> bytes:
        """Return the activity report of a search's records, as JSON (`worker.reporter.Report`)."""
        check(search, limit=MAX_REPORTED)
        ranges = await _ranges(client, search)
        job = ReportJob(search, ranges, most_keys, points, seconds)
        return b"".join([data async for data in self._chunks(client, job)])

    async def raw(self, client: Client, search: Search) -> RawRecord:
        """Return the record found by a search for one offset of one partition, as stored."""
        ranges = await _ranges(client, search)
        packed = b"".join([data async for data in self._chunks(client, RawJob(search, ranges))])
        return msgspec.msgpack.decode(packed, type=RawRecord)

    async def value(self, client: Client, search: Search) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of one record's value."""
        ranges = await _ranges(client, search)
        try:
            async for data in self._chunks(client, ValueJob(search, ranges)):
                yield data
        except SearchFailedError as error:
            if str(error) == RECORD_NOT_FOUND:
                raise ResourceNotFoundError(RECORD_NOT_FOUND, "offset") from None
            raise

    def _registry(self, client: Client) -> RegistryAccount:
        return registry_of(self.registry, client, by_user=self._by_user)

    async def _chunks(
        self, client: Client, job: ExportJob | RawJob | ReportJob | ValueJob
    ) -> AsyncGenerator[bytes, None]:
        (process,) = self._pool.choose(1)
        async with aclosing(process.run(await login_of(client), self._registry(client), job)) as answers:
            async for answer in answers:
                if isinstance(answer, ExportChunk):
                    yield answer.data

    async def _answers(
        self, client: Client, search: Search, ranges: list[Range]
    ) -> AsyncGenerator[ScanHits | ScanDone | None, None]:
        """Yield answers of all processes as they arrive; None after PROGRESS_SECONDS without one."""
        login, registry = await login_of(client), self._registry(client)
        shares = _shares(ranges, self._pool.choose(len(ranges)))
        queue: asyncio.Queue[ScanHits | ScanDone | Exception] = asyncio.Queue(2 * len(shares))
        tasks = [
            asyncio.create_task(_pump(process, login, registry, SearchJob(search, share), queue))
            for process, share in shares
        ]
        try:
            running = len(tasks)
            while running:
                try:
                    answer = await asyncio.wait_for(queue.get(), PROGRESS_SECONDS)
                except TimeoutError:
                    yield None
                    continue
                if isinstance(answer, Exception):
                    raise answer
                running -= isinstance(answer, ScanDone)
                yield answer
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class _Run:
    """State of one search."""

    def __init__(self, search: Search, ranges: list[Range], budget: ScanBudget, notes: list[str]) -> None:
        self._search, self._budget = search, budget
        self._merge = HitMerge(ranges, newest_first=search.newest_first)
        self._began = self._told = time.monotonic()
        self._records = self._bytes = self._hits = 0
        self._failures = 0
        self._failure = ""
        self._reason = "done"
        self._notes = list(notes)

    async def follow(
        self, answers: AsyncGenerator[ScanHits | ScanDone | None, None]
    ) -> AsyncGenerator[SearchEvent, None]:
        async for answer in answers:
            if isinstance(answer, ScanHits):
                self._take(answer)
                if rows := list(self._merge.ready(self._search.limit - self._hits)):
                    yield self._given(rows)
            elif isinstance(answer, ScanDone):
                self._notes += answer.notes
            if self._hits >= self._search.limit or self._is_spent():
                return
            if time.monotonic() - self._told >= PROGRESS_SECONDS:
                self._told = time.monotonic()
                yield self._progress()

    def end(self) -> list[SearchEvent]:
        """Flush the remaining hits."""
        rows = list(self._merge.ready(self._search.limit - self._hits, all_of_them=True))
        events: list[SearchEvent] = [self._given(rows)] if rows else []
        at = self._merge.continue_at
        reason = self._reason
        if reason == "done" and at:
            reason = "limit"
        return [*events, ScanEnd(reason, self._progress(), at, tuple(self._notes))]

    def _take(self, found: ScanHits) -> None:
        self._merge.add(found)
        self._records += found.records
        self._bytes += found.bytes
        self._failures += found.failures
        self._failure = self._failure or found.failure

    def _given(self, rows: list[Hit]) -> Hits:
        self._hits += len(rows)
        return Hits(rows, self._merge.continue_at)

    def _is_spent(self) -> bool:
        budget = self._budget
        spent = (
            self._records >= budget.records
            or self._bytes >= budget.bytes
            or time.monotonic() - self._began >= budget.seconds
        )
        if spent:
            self._reason = "budget"
        return spent

    def _progress(self) -> ScanProgress:
        return ScanProgress(
            self._records, self._bytes, self._merge.offsets, self._merge.size, self._hits,
            round(time.monotonic() - self._began, 3), self._merge.continue_at, self._failures, self._failure,
        )  # fmt: skip


async def _pump(
    process: SearchProcess,
    login: bytes,
    registry: RegistryAccount,
    job: SearchJob,
    queue: asyncio.Queue[ScanHits | ScanDone | Exception],
) -> None:
    try:
        async with aclosing(process.run(login, registry, job)) as answers:
            async for answer in answers:
                assert not isinstance(answer, ExportChunk)
                await queue.put(answer)
    except Exception as error:
        await queue.put(error)


async def _ranges(client: Client, search: Search) -> list[Range]:
    return _as_ranges(await find_bounds(client, search))


def _as_ranges(bounds: ScanBounds) -> list[Range]:
    return [Range(one.tp.partition, one.first, one.until) for one in bounds.ranges]


def _gap(word: str, ends: dict[int, int]) -> int:
    """Number of offsets missed by a paused tail."""
    positions = decode_positions(word) if word else {}
    return sum(max(0, ends[one] - at) for one, at in positions.items() if one in ends)


def _shares(
    ranges: Iterable[Range], processes: list[SearchProcess]
) -> list[tuple[SearchProcess, list[Range]]]:
    """Assign ranges to processes: the largest first, each to the least loaded process."""
    loads: list[list[Range]] = [[] for _ in processes]
    for one in sorted(ranges, key=lambda one: one.first - one.until):
        min(loads, key=lambda load: sum(taken.until - taken.first for taken in load)).append(one)
    return [(process, load) for process, load in zip(processes, loads, strict=True) if load]


def check(search: Search, limit: int = MAX_HITS) -> None:
    """Validate a search before it reaches a process; raises SearchError with the invalid field."""
    if not 1 <= search.limit <= limit:
        raise SearchError(f"the limit must be 1 to {limit:,} records, not {search.limit:,}", "limit")
    for name in ("find", "key", "header"):
        if len(getattr(search, name)) > MAX_TEXT:
            raise SearchError(f"longer than {MAX_TEXT} characters", name)
    if search.regex:
        try:
            compile_pattern(search.find)
        except PatternError as error:
            raise SearchError(f"not a valid RE2 regular expression: {error}", "find") from error
    if search.where:
        try:
            Filter(search.where)
        except FilterError as error:
            raise SearchError(str(error), "where") from error


# -- One record without a search process, which takes a second to start: for a link to a record, opened first --


async def read_single(client: Client, search: Search, *, has_registry: bool) -> Hit | None:
    """The record at `first_offset`; None where a search process is needed: masks, schemas, transactions, gaps."""
    offset = search.first_offset
    if search.masks or search.decode is Decode.REGISTRY or offset is None:
        return None
    tp = TopicPartition(search.topic, search.partitions[0])
    settings = FetchSettings(partition_bytes=SINGLE_BYTES, max_wait=0.0, isolation=1)
    leader = await client.leader(tp)
    (answer,) = await fetch(client, leader, {tp: offset}, settings)
    if answer.error:
        return None
    record = await asyncio.to_thread(_record_at, answer.records, offset)
    if record is None or (has_registry and (_is_framed(record.key) or _is_framed(record.value))):
        return None
    pairs = [{"key": name, "value": value} for name, value in record.headers]
    row = {**record._asdict(), "headers": pairs}
    return Viewer(search, None).hits([row], tp.partition)[0]


def _record_at(records: memoryview, offset: int) -> Record | None:
    for start, header in iterate_headers(records):
        if header.next_offset > offset:
            if header.is_control or header.is_transactional:
                return None
            batch = records[start : start + header.size]
            return next((each for each in iterate_records(batch, header) if each.offset == offset), None)
    return None


def _is_framed(data: bytes | None) -> bool:
    """Begins like the id of a schema."""
    return data is not None and data[:1] == b"\0"
