"""Chunks in memory and on disk: downloaded once, within limits of disk, memory and downloads."""

import asyncio
import errno
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.files import FileSlice, FileSystem, LocalFileSystem
from barnabas.common.threads import ThreadBackground
from barnabas.testing.files import FaultyFileSystem
from barnabas.tiering.objects.segment_object import CHUNK_BYTES, BadObjectError
from barnabas.tiering.reading.chunk_cache import ChunkCache
from barnabas.tiering.reading.chunk_files import ChunkFiles
from barnabas.tiering.reading.chunk_memory import STALE, RemoteChunk, Reuse
from barnabas.tiering.stores.store import StoreError, StoreUnavailableError
from barnabas.tiering.stores.traffic import ReadQuota
from tests.support.waiting import async_until

SIZE = 1000


def contents(number: int) -> bytes:
    return bytes([number % 251]) * SIZE


def chunk(number: int) -> RemoteChunk:
    return RemoteChunk("topic/0/a.segment", number * SIZE, SIZE, crc32c(contents(number)))


class AllIsKept(Reuse):
    """All logs are read repeatedly: chunks are cached on disk."""

    def keeps(self, chunk: RemoteChunk) -> bool:
        return True


class Downloads:
    """Source of the chunks: each GET can be held until it is released."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.running = self.most_running = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.answer: Callable[[int], bytes] = contents

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        assert end - start == SIZE
        self.asked.append(start // SIZE)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            await self.gate.wait()
            return self.answer(start // SIZE)
        finally:
            self.running -= 1


@asynccontextmanager
async def caching(
    folder: Path | str,
    chunks: int = 4,
    max_downloads: int = 3,
    fs: FileSystem | None = None,
    quota: ReadQuota | None = None,
    *,
    once: bool = False,
) -> AsyncIterator[tuple[ChunkCache, Downloads]]:
    downloads = Downloads()
    threads = ThreadBackground(asyncio.get_running_loop(), 2, "test")
    files = ChunkFiles(fs or LocalFileSystem(), f"{folder}/cache")
    files.empty()
    cache = ChunkCache(
        downloads.get_range,
        files,
        threads,
        limit=chunks * SIZE,
        max_downloads=max_downloads,
        memory_limit=2 * SIZE,
        quota=quota,
        reuse=None if once else AllIsKept(lambda: 0),
    )
    try:
        yield cache, downloads
    finally:
        await cache.close()
        threads.close()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "cache").iterdir())


def test_many_readers_of_a_chunk_share_one_download(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path) as (cache, downloads):
            downloads.gate.clear()
            readers = [asyncio.create_task(cache.load(chunk(1))) for _ in range(50)]
            await async_until(lambda: downloads.running == 1)
            downloads.gate.set()
            files = await asyncio.gather(*readers)
            assert downloads.asked == [1]
            assert all(file.read(SIZE, 0) == contents(1) for file in files)
            await cache.load(chunk(1))
            assert downloads.asked == [1]

    run(test())


def test_download_continues_when_its_reader_gives_up(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path) as (cache, downloads):
            downloads.gate.clear()
            reader = asyncio.create_task(cache.load(chunk(1)))
            await async_until(lambda: downloads.running == 1)
            reader.cancel()
            downloads.gate.set()
            await async_until(lambda: cache.running == 0)
            assert cache.find(chunk(1)) is not None

    run(test())


def test_no_more_downloads_run_than_are_allowed(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=100, max_downloads=3) as (cache, downloads):
            downloads.gate.clear()
            readers = [asyncio.create_task(cache.load(chunk(number))) for number in range(30)]
            await async_until(lambda: downloads.running == 3)
            downloads.gate.set()
            await asyncio.gather(*readers)
            assert downloads.most_running == 3
            assert sorted(downloads.asked) == list(range(30))

    run(test())


def test_the_disk_never_holds_more_than_the_limit(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=4) as (cache, _downloads):
            for number in range(20):
                await cache.load(chunk(number))
                assert cache.used <= cache.limit
                assert on_disk(tmp_path) <= cache.limit
            assert [number for number in range(20) if cache.find(chunk(number))] == [16, 17, 18, 19]
            assert cache.evicted == 16

    run(test())


def test_most_recently_used_entries_stay(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=4) as (cache, _downloads):
            for number in (0, 1, 2, 3, 0, 4):
                await cache.load(chunk(number))
            assert cache.find(chunk(0)) is not None
            assert cache.find(chunk(1)) is None

    run(test())


def test_a_chunk_that_is_being_sent_is_neither_removed_nor_counted_as_free(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=2) as (cache, _downloads):
            slices = [FileSlice(await cache.load(chunk(number)), 0, SIZE) for number in (0, 1)]
            for number in (2, 3, 4, 5):
                assert (await cache.load(chunk(number))).read(SIZE, 0) == contents(number)
                assert on_disk(tmp_path) <= cache.limit
                assert cache.memory.used <= cache.memory.limit
            assert [part.read() for part in slices] == [contents(0), contents(1)]
            slices.clear()
            await cache.load(chunk(6))
            assert cache.evicted == 1

    run(test())


def test_downloads_wait_while_neither_disk_nor_memory_has_room(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=2) as (cache, _downloads):
            held = [await cache.load(chunk(number)) for number in range(4)]  # two of them in memory
            assert cache.memory.used == cache.memory.limit
            reader = asyncio.create_task(cache.load(chunk(9)))
            other = asyncio.create_task(cache.load(chunk(10)))
            await asyncio.sleep(0)
            assert cache.waiting == 2
            held.clear()
            gc.collect()
            await cache.load(chunk(11))  # the next reader retries
            await asyncio.gather(reader, other)

    run(test())


def test_a_full_disk_is_replaced_by_memory_within_its_bound(tmp_path: Path) -> None:
    async def test() -> None:
        fs = FaultyFileSystem()
        async with caching("", chunks=50, fs=fs) as (cache, _downloads):
            fs.fail_at(1, OSError(errno.ENOSPC, "no space left on device"), "append", forever=True)
            files = [await cache.load(chunk(number)) for number in (0, 1)]
            assert [file.read(SIZE, 0) for file in files] == [contents(0), contents(1)]
            assert (cache.used, cache.memory.used) == (0, 2 * SIZE)
            with pytest.raises(StoreError, match="disk of the cache is full"):
                await cache.load(chunk(2))
            files.clear()
            await cache.load(chunk(2))
            fs.heal()
            await cache.load(chunk(3))
            assert cache.used == SIZE
            assert fs.list("/cache") == ["0000000004.chunk"]

    run(test())


def test_other_bytes_than_were_written_are_not_kept(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path) as (cache, downloads):
            downloads.answer = lambda number: contents(number)[:-1] + b"x"
            with pytest.raises(BadObjectError, match=r"topic/0/a\.segment"):
                await cache.load(chunk(1))
            downloads.answer = lambda number: contents(number)[:-1]
            with pytest.raises(BadObjectError):
                await cache.load(chunk(1))
            assert (cache.used, on_disk(tmp_path)) == (0, 0)
            downloads.answer = contents
            assert (await cache.load(chunk(1))).read(SIZE, 0) == contents(1)

    run(test())


def test_all_readers_hear_of_a_failed_download_and_the_next_one_tries_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path) as (cache, downloads):

            def fail(number: int) -> bytes:
                raise StoreUnavailableError("503")

            downloads.answer = fail
            outcomes = await asyncio.gather(*(cache.load(chunk(1)) for _ in range(5)), return_exceptions=True)
            assert all(isinstance(outcome, StoreUnavailableError) for outcome in outcomes)
            assert downloads.asked == [1]
            assert cache.used == 0
            downloads.answer = contents
            await cache.load(chunk(1))

    run(test())


def test_requested_chunks_precede_read_ahead(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=20, max_downloads=1) as (cache, downloads):
            downloads.gate.clear()
            for number in (1, 2, 3):
                assert cache.ahead(chunk(number))
            wanted = [asyncio.create_task(cache.load(chunk(number))) for number in (9, 3)]
            await async_until(lambda: downloads.running == 1)
            downloads.gate.set()
            await asyncio.gather(*wanted)
            await async_until(lambda: cache.running + cache.waiting == 0)
            assert downloads.asked == [1, 9, 3, 2]

    run(test())


def test_read_ahead_uses_at_most_half_of_the_cache(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=8) as (cache, _downloads):
            assert [cache.ahead(chunk(number)) for number in range(6)] == [True] * 4 + [False] * 2
            await async_until(lambda: cache.running + cache.waiting == 0)
            await cache.load(chunk(0))
            assert cache.ahead(chunk(5))

    run(test())


def test_a_chunk_larger_than_the_cache_is_served_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=1) as (cache, _downloads):
            cache.limit = SIZE // 2
            for number in range(3):
                assert (await cache.load(chunk(number))).read(SIZE, 0) == contents(number)
                assert on_disk(tmp_path) == SIZE

    run(test())


def test_files_of_an_earlier_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "0000000007.chunk").write_bytes(b"old")

    async def test() -> None:
        async with caching(tmp_path) as (cache, _downloads):
            assert on_disk(tmp_path) == 0
            await cache.load(chunk(1))
            for path in (tmp_path / "cache").iterdir():
                path.unlink()  # external cleanup: open files stay
            assert cache.find(chunk(1)) is not None

    run(test())


def test_closing_ends_downloads_and_waiters(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path) as (cache, downloads):
            downloads.gate.clear()
            reader = asyncio.create_task(cache.load(chunk(1)))
            await async_until(lambda: downloads.running == 1)
            await cache.close()
            with pytest.raises(asyncio.CancelledError):
                await reader
            assert downloads.running == 0

    run(test())


def test_downloads_wait_for_the_quota_and_requested_ones_come_first(tmp_path: Path) -> None:
    async def test() -> None:
        now = [100.0]
        quota = ReadQuota(lambda: now[0], 10 * SIZE)
        async with caching(tmp_path, chunks=100, max_downloads=50, quota=quota) as (cache, downloads):
            await asyncio.gather(*(cache.load(chunk(number)) for number in range(11)))
            assert downloads.asked == list(range(11)), "a second's worth, and one more"
            cache.ahead(chunk(50))
            reader = asyncio.create_task(cache.load(chunk(20)))
            await asyncio.sleep(0)
            assert len(downloads.asked) == 11
            assert quota.traffic.average_wait_ms == quota.traffic.longest_wait_ms == pytest.approx(100)
            now[0] += 0.11
            cache._start_now()  # as the timer does
            await reader
            assert downloads.asked[11:] == [20]
            now[0] += 60
            cache._start_now()
            await async_until(lambda: downloads.asked[12:] == [50])
            assert quota.traffic.bytes_per_second == pytest.approx(SIZE / 10)

    run(test())


def test_a_download_that_the_quota_held_back_begins_by_itself(tmp_path: Path) -> None:
    async def test() -> None:
        quota = ReadQuota(asyncio.get_running_loop().time, 100 * SIZE)
        async with caching(tmp_path, chunks=1000, max_downloads=1000, quota=quota) as (cache, downloads):
            await asyncio.gather(*(cache.load(chunk(number)) for number in range(130)))
            assert len(downloads.asked) == 130
            assert quota.traffic.longest_wait_ms > 0

    run(test())


def test_the_memory_for_chunks_is_that_of_ten(tmp_path: Path) -> None:
    async def test() -> None:
        threads = ThreadBackground(asyncio.get_running_loop(), 1, "test")
        files = ChunkFiles(LocalFileSystem(), f"{tmp_path}/cache")
        cache = ChunkCache(Downloads().get_range, files, threads, limit=0, max_downloads=1)
        assert cache.memory.limit == 10 * CHUNK_BYTES == 40 << 20
        await cache.close()
        threads.close()

    run(test())


def test_disk_space_is_reserved_before_the_object_is_requested(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=4) as (cache, downloads):
            downloads.gate.clear()
            readers = [asyncio.create_task(cache.load(chunk(number))) for number in range(3)]
            await async_until(lambda: downloads.running == 3)
            assert cache.used == 3 * SIZE
            assert on_disk(tmp_path) == 0
            downloads.gate.set()
            await asyncio.gather(*readers)
            assert cache.used == on_disk(tmp_path) == 3 * SIZE

    run(test())


# -- in memory ----------------------------------------------------------------------------------------------


async def read_through(cache: ChunkCache, numbers: Iterable[int]) -> None:
    """Read like one sequential reader."""
    for number in numbers:
        assert (await cache.load(chunk(number))).read(SIZE, 0) == contents(number)
        cache.note_end(chunk(number))


def test_single_use_reads_bypass_the_disk_cache(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, once=True) as (cache, downloads):
            await read_through(cache, range(20))
            assert downloads.asked == list(range(20))
            assert (cache.used, on_disk(tmp_path), cache.memory.used) == (0, 0, 2 * SIZE)

    run(test())


def test_chunks_that_are_not_read_yet_stay_in_memory_and_others_come_to_the_disk(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, once=True) as (cache, downloads):
            for number in range(4):
                await cache.load(chunk(number))
            assert (cache.memory.used, cache.used, on_disk(tmp_path)) == (2 * SIZE, 2 * SIZE, 2 * SIZE)
            await read_through(cache, range(4))
            assert downloads.asked == list(range(4))

    run(test())


def test_a_log_that_is_read_again_comes_to_the_disk_until_that_is_of_no_use(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=4, once=True) as (cache, downloads):
            await read_through(cache, range(6))  # the first reader; four of these the disk could have held
            await read_through(cache, [2])  # the second one
            assert downloads.asked == [0, 1, 2, 3, 4, 5, 2]
            assert on_disk(tmp_path) == SIZE
            await read_through(cache, [6, 7])
            assert on_disk(tmp_path) == 3 * SIZE
            await read_through(cache, [6, 7])  # as the third one does: from the disk
            assert downloads.asked[7:] == [6, 7]
            await read_through(cache, range(10, 20))  # no other reader
            assert cache.used == on_disk(tmp_path) == 4 * SIZE
            assert cache.memory.used == 2 * SIZE, "the disk is left alone again"

    run(test())


def test_old_reads_do_not_count_as_rereads_for_the_disk_cache(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=4, once=True) as (cache, _downloads):
            await read_through(cache, range(20))
            await read_through(cache, range(13))
            assert on_disk(tmp_path) == 0

    run(test())


def test_a_chunk_in_memory_that_is_being_sent_stays_though_it_was_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, once=True) as (cache, _downloads):
            slices = [FileSlice(await cache.load(chunk(number)), 0, SIZE) for number in (0, 1)]
            for number in (0, 1):
                cache.note_end(chunk(number))
            await cache.load(chunk(2))
            assert (cache.memory.used, cache.used) == (2 * SIZE, SIZE)
            assert [part.read() for part in slices] == [contents(0), contents(1)]
            slices.clear()
            await cache.load(chunk(3))
            assert (cache.memory.used, cache.used) == (2 * SIZE, SIZE)
            assert cache.find_in_memory(chunk(3)) is not None

    run(test())


def test_abandoned_entries_leave_the_memory(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, chunks=200, once=True) as (cache, _downloads):
            for number in (0, 1):
                await cache.load(chunk(number))  # and their reader dies
            await read_through(cache, range(10, 10 + 2 * STALE))
            assert cache.find_in_memory(chunk(0)) is None
            assert cache.find_in_memory(chunk(9 + 2 * STALE)) is not None

    run(test())


def test_a_failed_download_gives_its_memory_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with caching(tmp_path, once=True) as (cache, downloads):
            downloads.answer = lambda number: contents(number + 1)
            for _ in range(5):
                with pytest.raises(BadObjectError):
                    await cache.load(chunk(1))
            downloads.answer = contents
            await cache.load(chunk(1))
            await cache.load(chunk(2))
            assert (cache.memory.used, cache.used) == (2 * SIZE, 0)

    run(test())
