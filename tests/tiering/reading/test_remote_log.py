"""Reading remote segments: results, requests to the store, and failures."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.clock import ManualClock
from barnabas.common.errors import ErrorCode
from barnabas.common.files import FileSlice, LocalFileSystem
from barnabas.common.threads import ThreadBackground
from barnabas.log.segments.aborted_index import AbortedTransaction, encode_aborted
from barnabas.log.tiering.copying import OpenTransaction, SealedSegment
from barnabas.records.batch import iterate_headers
from barnabas.testing.objects import Fault, MemoryObjectStore
from barnabas.tiering.objects import segment_build
from barnabas.tiering.objects.manifest import Manifest, encode
from barnabas.tiering.objects.manifest_changes import add, new_manifest
from barnabas.tiering.objects.segment_object import BadObjectError
from barnabas.tiering.reading.chunk_cache import ChunkCache
from barnabas.tiering.reading.chunk_files import ChunkFiles
from barnabas.tiering.reading.remote_index_cache import RemoteIndexCache
from barnabas.tiering.reading.remote_log import ManifestReader, ReadingParts, RemoteLog, RemoteRead
from barnabas.tiering.reading.store_reader import StoreReader
from barnabas.tiering.stores.store import MissingObjectError, StoreError, StoreUnavailableError
from tests.support.builders.segments import FOLDER, NOW, WRITER, batches, build, sealed
from tests.support.waiting import async_until

CHUNK = 2000
CACHED = 20
"""Chunks that fit in the cache."""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_build, "CHUNK_BYTES", CHUNK)


class Bench:
    """Segments in a store, and a remote log that reads them."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryObjectStore()
        self.clock = ManualClock()
        self.threads = ThreadBackground(asyncio.get_running_loop(), 2, "test")
        self.reader = StoreReader(self.store, self.clock, sleep=self._sleep, attempt_seconds=5)
        files = ChunkFiles(LocalFileSystem(), f"{folder}/cache")
        files.empty()
        self.chunks = ChunkCache(
            self.reader.get_range, files, self.threads, limit=CACHED * CHUNK, max_downloads=10
        )
        self.indexes = RemoteIndexCache(self.reader, self.threads)
        self.parts = ReadingParts(self.reader, self.indexes, self.chunks, self.threads, self.clock)
        self.log = RemoteLog(FOLDER, self.parts)
        self.data = b""
        self.manifest: Manifest = new_manifest(FOLDER, WRITER, 0)

    async def _sleep(self, seconds: float) -> None:
        self.clock.advance(round(1000 * seconds))

    async def copy(self, *bounds: int, **fields: Any) -> None:
        """Segments between these offsets."""
        if not self.manifest.entries:
            self.manifest = new_manifest(FOLDER, WRITER, bounds[0])
        for base, end in pairwise(bounds):
            await self.copy_sealed(sealed(base, end, **fields))

    async def copy_sealed(self, segment: SealedSegment) -> None:
        self.data += segment.data.read()
        contents, entry = await build(segment)
        self.store.set_contents(FOLDER.key(entry.key), contents)
        self.manifest = add(self.manifest, entry)
        self.store.set_contents(FOLDER.manifest, encode(self.manifest))

    def key(self, number: int) -> str:
        return FOLDER.key(self.manifest.entries[number].key)

    async def read_all(self, start: int, end: int, max_bytes: int = 700) -> bytes:
        """Read like a consumer: truncated batches are requested again."""
        data = b""
        while start < end:
            found = (await self.log.read(start, max_bytes)).data
            assert isinstance(found, FileSlice)
            for position, header in iterate_headers(found.read()):
                if header.base_offset >= start:
                    data += found.read(header.size, position)
                    start = header.next_offset
        return data


@asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    made = Bench(folder)
    try:
        yield made
    finally:
        await made.log.close()
        await made.indexes.close()
        await made.chunks.close()
        made.threads.close()


def running(folder: Path, test: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with bench(folder) as made:
            await test(made)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_consumer_gets_every_batch_as_it_was_written(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 100, 150, 400)
        assert await bench.read_all(0, 400) == bench.data

    running(tmp_path, test)


@pytest.mark.parametrize("batch", [1, 3])
def test_any_offset_is_found_in_the_batch_that_holds_it(tmp_path: Path, batch: int) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(30, 90, data=batches(30, 90, batch))
        for offset in range(30, 90):
            found = await bench.log.read(offset, 1)  # the first batch is complete nevertheless
            assert isinstance(found.data, FileSlice)
            ((_, header),) = iterate_headers(found.data.read())
            assert header.base_offset <= offset <= header.last_offset
            assert header.size == len(found.data)
            none = await bench.log.read(offset, 1, at_least_one=False)
            assert none == RemoteRead(b"", [])

    running(tmp_path, test)


def test_a_segment_costs_one_request_for_its_indexes_and_one_for_each_chunk(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 100)
        bench.log.manifest.use(bench.manifest)
        await bench.read_all(0, 100)
        footer = (await bench.indexes.load(bench.key(0), bench.manifest.entries[0])).footer
        assert bench.store.requests == {"get_range": 1 + len(footer.chunks)}
        assert len(footer.chunks) > 3

    running(tmp_path, test)


def test_readers_of_one_place_share_all_requests(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 20)
        bench.store.latency = 0.01
        await asyncio.gather(*(bench.log.read(offset, 100) for offset in range(20)))
        assert bench.store.requests == {"get": 1, "get_range": 2}

    running(tmp_path, test)


def test_read_ahead_of_a_sequential_reader_crosses_segments(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 60, 1200)
        bench.log.manifest.use(bench.manifest)
        first = await bench.indexes.load(bench.key(0), bench.manifest.entries[0])
        starts = [chunk.base_offset for chunk in first.footer.chunks]
        await bench.log.read(starts[0], 100)
        assert bench.chunks.downloaded_bytes == first.chunk(0).size  # a single read has nothing read ahead
        for start in starts[1:]:
            await bench.log.read(start, 100)
        await async_until(lambda: bench.indexes.find(bench.key(1), bench.manifest.entries[1]) is not None)
        second = await bench.indexes.load(bench.key(1), bench.manifest.entries[1])
        await async_until(lambda: bench.chunks.find(second.chunk(0)) is not None)
        for number in range(4):
            await bench.log.read(second.footer.chunks[number].base_offset, 100)
        await async_until(lambda: bench.chunks.find(second.chunk(3 + 8)) is not None)
        await async_until(lambda: bench.chunks.running + bench.chunks.waiting == 0)
        assert bench.chunks.find(second.chunk(3 + 9)) is None

    running(tmp_path, test)


def test_a_loaded_batch_is_read_without_waiting_and_found_in_memory(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 100)
        assert bench.log.find(0) is None
        batch = await bench.log.load(0)
        found = bench.log.find(0)
        assert found == batch
        data = bench.log.slice(batch, 100).data
        assert isinstance(data, FileSlice)
        assert data.file is batch.file
        assert bench.log.find(99) is None

    running(tmp_path, test)


def test_a_reader_of_committed_data_learns_of_aborted_transactions_that_touch_it(tmp_path: Path) -> None:
    aborted = [
        AbortedTransaction(7, 3, 9, 10),
        AbortedTransaction(8, 2, 90, 91),
        AbortedTransaction(9, 80, 130, 131),
    ]

    async def test(bench: Bench) -> None:
        await bench.copy(0, 100, aborted=encode_aborted(aborted))
        first = await bench.log.read(0, 300, committed=True)
        assert first.aborted == [(8, 2), (7, 3)]
        last = await bench.log.read(95, 300, committed=True)
        assert last.aborted == [(9, 80)]  # its marker is in a later segment
        assert (await bench.log.read(0, 300)).aborted == []

    running(tmp_path, test)


def test_very_many_aborted_transactions_make_the_slice_short_and_the_list_too(tmp_path: Path) -> None:
    aborted = [AbortedTransaction(1000 + n, 0, 99, 1) for n in range(500)]

    async def test(bench: Bench) -> None:
        await bench.copy(0, 100, aborted=encode_aborted(aborted))
        found = await bench.log.read(0, 1 << 20, committed=True)
        assert isinstance(found.data, FileSlice)
        assert found.aborted == []  # it has no batch of them

    running(tmp_path, test)


def test_records_are_found_by_time(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 100, 200, data=None)
        for offset in (0, 1, 57, 99, 100, 199):
            found = await bench.log.offset_for_timestamp(NOW + offset, 0, 200)
            assert found is not None
            assert (found.offset, found.timestamp) == (offset, NOW + offset)
        assert (await bench.log.offset_for_timestamp(0, 42, 200)).offset == 42  # type: ignore[union-attr]
        assert await bench.log.offset_for_timestamp(NOW + 200, 0, 200) is None
        assert await bench.log.offset_for_timestamp(NOW + 150, 0, 150) is None

    running(tmp_path, test)


def test_a_search_by_time_asks_for_one_footer_and_one_chunk(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(*range(0, 1001, 100))
        bench.log.manifest.use(bench.manifest)
        await bench.log.offset_for_timestamp(NOW + 555, 0, 1000)
        assert bench.store.requests == {"get_range": 2}

    running(tmp_path, test)


def test_a_segment_that_was_cut_is_not_read_behind_its_end(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 100)
        (entry,) = bench.manifest.entries
        cut = type(entry)(entry.base, 50, *(getattr(entry, name) for name in entry.__struct_fields__[2:]))
        bench.manifest = add(new_manifest(FOLDER, WRITER, 0), cut)
        bench.store.set_contents(FOLDER.manifest, encode(bench.manifest))
        assert await bench.read_all(0, 50) == batches(0, 50)
        last = await bench.log.read(49, 10_000)
        assert isinstance(last.data, FileSlice)
        assert last.data.read() == batches(49, 50)

    running(tmp_path, test)


def test_a_newer_manifest_is_read_when_an_offset_is_not_listed(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 50)
        bench.log.manifest.use(bench.manifest)
        await bench.copy(50, 100)
        assert await bench.read_all(0, 100) == bench.data
        with pytest.raises(StoreError, match="no remote segment holds offset 100"):
            await bench.log.read(100, 100)

    running(tmp_path, test)


def test_missing_object_is_looked_up_again_in_a_newer_manifest(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 50)
        stale = bench.manifest
        await bench.store.delete(bench.key(0))
        contents, entry = await build(sealed(0, 50), name="00000000000000000000-0000000009-ffffffff.segment")
        bench.store.set_contents(FOLDER.key(entry.key), contents)
        bench.store.set_contents(FOLDER.manifest, encode(add(new_manifest(FOLDER, WRITER, 0), entry)))
        bench.log.manifest.use(stale)
        assert await bench.read_all(0, 50) == bench.data

    running(tmp_path, test)


def test_deleted_object_is_an_error_that_names_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 50)
        await bench.store.delete(bench.key(0))
        with pytest.raises(MissingObjectError) as raised:
            await bench.log.read(7, 100)
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert bench.key(0) in caplog.text

    running(tmp_path, test)


@pytest.mark.parametrize("fault", [Fault.CORRUPT, Fault.CUT])
def test_damage_on_the_way_is_read_again(tmp_path: Path, fault: Fault) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 50)
        bench.log.manifest.use(bench.manifest)
        bench.store.fault(fault, "get_range", at=1)
        await bench.log.read(0, 100)  # the footer
        bench.store.fault(fault, "get_range", at=1)
        assert await bench.read_all(0, 50) == bench.data  # a chunk

    running(tmp_path, test)


def test_damage_in_the_store_is_an_error_and_never_sent(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 50)
        damaged = bytearray(bench.store.contents(bench.key(0)))
        damaged[100] ^= 1
        bench.store.set_contents(bench.key(0), bytes(damaged))
        with pytest.raises(BadObjectError, match=bench.key(0)):
            await bench.log.read(0, 100)
        assert isinstance((await bench.log.read(49, 100)).data, FileSlice)  # another chunk

    running(tmp_path, test)


def test_a_store_that_hangs_or_fails_is_tried_again(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 50)
        bench.reader._attempt_seconds = 0.02
        bench.store.fault(Fault.HANG, "get_range", at=1)
        bench.store.fault(Fault.FAIL, "get", at=1, times=2)
        assert await bench.read_all(0, 50) == bench.data

    running(tmp_path, test)


def test_a_read_that_failed_is_tried_again(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 50)
        bench.store.fault(Fault.FAIL, times=1_000_000)
        with pytest.raises(StoreUnavailableError):
            await bench.log.load(0)
        request_count = bench.store.requests.total()
        with pytest.raises(StoreUnavailableError):
            await bench.log.load(0)  # no request: the circuit breaker is open
        assert bench.store.requests.total() == request_count
        bench.clock.advance(1_100)
        assert bench.log.find(0) is None
        bench.store.heal()
        assert await bench.read_all(0, 50) == bench.data

    running(tmp_path, test)


def test_the_manifest_of_the_writer_is_used_until_the_leader_changes(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 50)
        written: list[Manifest] = []
        bench.log.manifest.follow(lambda: written[-1] if written else None)
        assert bench.log.manifest.current is None
        written.append(bench.manifest)
        await bench.log.read(0, 100)
        assert bench.store.requests["get"] == 0
        bench.log.manifest.use(None)
        assert bench.log.manifest.current is None

    running(tmp_path, test)


def test_a_log_that_begins_at_the_tiered_end_gets_epochs_producers_and_open_transactions(
    tmp_path: Path,
) -> None:
    undecided = (OpenTransaction(5, 0, 140, None),)

    async def test(bench: Bench) -> None:
        await bench.copy(10, 100, epochs=((1, 0), (3, 50)))
        await bench.copy(100, 150, epochs=((1, 0), (3, 50), (4, 120)), open_transactions=undecided)
        found = await bench.log.bootstrap()
        assert (found.log_start, found.tiered_end) == (10, 150)
        assert found.epochs == ((1, 0), (3, 50), (4, 120))
        assert found.open_transactions == undecided
        assert found.producers == sealed(0, 1).producers

    running(tmp_path, test)


def test_empty_remote_part_starts_at_the_end_of_its_manifest(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.store.set_contents(FOLDER.manifest, encode(new_manifest(FOLDER, WRITER, 12)))
        found = await bench.log.bootstrap()
        assert (found.log_start, found.tiered_end, found.epochs) == (12, 12, ())

    running(tmp_path, test)


def test_indexes_in_memory_are_bounded(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(*range(0, 2001, 100))
        bench.indexes._limit = 3 * (4096 + 4000)
        for offset in range(0, 2000, 100):
            await bench.log.read(offset, 100)
            assert bench.indexes.weight <= bench.indexes._limit
        assert bench.indexes.find(bench.key(0), bench.manifest.entries[0]) is None
        assert bench.indexes.find(bench.key(19), bench.manifest.entries[19]) is not None, "the last one stays"
        assert RemoteIndexCache(bench.indexes._store, bench.indexes._threads)._limit == 64 << 20

    running(tmp_path, test)


def test_manifest_requested_before_a_leader_change_is_ignored() -> None:
    """It would read records that an unclean election has cut."""

    async def scenario() -> None:
        store = MemoryObjectStore()
        reader = ManifestReader(FOLDER, store)
        store.set_contents(FOLDER.manifest, encode(new_manifest(FOLDER, WRITER, 0)))
        store.fault(Fault.LATE, "get", seconds=0.05)
        early = asyncio.ensure_future(reader.refresh())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert store.requests["get"] == 1
        reader.use(None)
        newest = await reader.refresh()
        assert reader.current is newest
        assert await early is not newest
        assert reader.current is newest
        reader.close()

    asyncio.run(scenario())
