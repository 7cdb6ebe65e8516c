"""Ranges of offsets read from a store without a broker: results, requests, failures."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from barnabas.client.offsets import OffsetRange
from barnabas.common.types import TopicPartition
from barnabas.log.segments.aborted_index import AbortedTransaction, encode_aborted
from barnabas.records.builder import build_batch
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.records.record import Record, iterate_records
from barnabas.testing.objects import Fault, MemoryObjectStore
from barnabas.tiering.objects import manifest_changes, segment_build
from barnabas.tiering.objects.manifest import Manifest, encode
from barnabas.tiering.objects.manifest_changes import add, move_to_page, needs_page, new_manifest
from barnabas.tiering.objects.segment_object import BadObjectError
from barnabas.tiering.reading.bucket_topics import (
    BucketError,
    BucketPartition,
    TopicFolder,
    by_name,
    find_cluster,
    find_topics,
    read_partitions,
    select_topics,
)
from barnabas.tiering.reading.segment_fetcher import SegmentFetcher
from barnabas.tiering.reading.segment_ranges import (
    divide_by_size,
    entries_between,
    offset_for_timestamp,
    segment_ranges,
)
from tests.support.builders.segments import FOLDER, NOW, WRITER, batches, build, sealed

TP = TopicPartition("orders", 0)
CHUNK = 2000
PAGE = 4


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_build, "CHUNK_BYTES", CHUNK)


class Bench:
    """Segments in a store, and losses reported to readers."""

    def __init__(self) -> None:
        self.store = MemoryObjectStore()
        self.manifest: Manifest = new_manifest(FOLDER, WRITER, 0)
        self.lost: list[str] = []

    async def copy(self, *bounds: int, **fields: Any) -> None:
        for base, end in pairwise(bounds):
            contents, entry = await build(sealed(base, end, **fields))
            self.store.set_contents(FOLDER.key(entry.key), contents)
            if needs_page(self.manifest):
                self.manifest, page, data = move_to_page(self.manifest, WRITER.leader_epoch)
                self.store.set_contents(FOLDER.key(page), data)
            self.manifest = add(self.manifest, entry)
        self.store.set_contents(FOLDER.manifest, encode(self.manifest))

    @property
    def partition(self) -> BucketPartition:
        return BucketPartition(FOLDER, self.manifest)

    async def fetcher(self, first: int, until: int, committed: bool = False) -> SegmentFetcher:
        entries = await entries_between(self.store, self.partition, first, until)
        parts = segment_ranges(self.partition, entries, OffsetRange(TP, first, until))
        return SegmentFetcher(self.store, parts, committed=committed, on_loss=self.lost.append)

    async def read(self, first: int, until: int, committed: bool = False) -> list[int]:
        fetcher = await self.fetcher(first, until, committed)
        found: list[int] = []
        while not fetcher.is_done:
            for part in await fetcher.next():
                for batch in part.planned.batches:
                    records = iterate_records(part.planned.records[batch.start : batch.end], batch.header)
                    found += [record.offset for record in records if part.first <= record.offset < part.until]
        await fetcher.close()
        return found


def running(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(Bench()), 60))


def test_a_range_is_read_in_order_across_chunks_and_segments() -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 100, 250, 300)
        assert await bench.read(0, 300) == list(range(300))
        assert await bench.read(90, 260) == list(range(90, 260))
        assert await bench.read(100, 101) == [100]

    running(test)


def test_only_chunks_of_the_range_are_requested_with_some_read_ahead() -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 1000)
        assert await bench.read(0, 1) == [0]
        assert bench.store.requests == {"get_range": 2}  # the footer and a chunk
        fetcher = await bench.fetcher(0, 1000)
        await fetcher.next()
        assert bench.store.requests["get_range"] == 2 + 1 + 1 + 4
        await fetcher.close()

    running(test)


def test_committed_reads_leave_aborted_batches_out() -> None:
    async def test(bench: Bench) -> None:
        records = [Record(0, NOW + offset, b"k", b"v") for offset in range(10, 20)]
        sent = build_batch(records, base_offset=10, producer_id=7, producer_epoch=0, transactional=True)
        abort = EndTransactionMarker(committed=False, coordinator_epoch=0)
        marker = end_transaction_marker(7, 0, abort, timestamp=NOW, base_offset=20)
        data = batches(0, 10) + sent + marker + batches(21, 500)
        aborted = encode_aborted([AbortedTransaction(7, 10, 20, 20)])
        await bench.copy(0, 500, data=bytes(data), aborted=aborted)
        assert await bench.read(0, 500) == [*range(20), *range(21, 500)]
        assert await bench.read(0, 500, committed=True) == [*range(10), *range(21, 500)]
        assert await bench.read(15, 30, committed=True) == list(range(21, 30))

    running(test)


def test_pages_of_a_large_manifest_are_read_where_the_range_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manifest_changes, "MAX_ENTRIES", 2 * PAGE)
    monkeypatch.setattr(manifest_changes, "PAGE_ENTRIES", PAGE)

    async def test(bench: Bench) -> None:
        await bench.copy(*range(0, 210, 10))
        assert len(bench.manifest.pages) >= 3
        assert await bench.read(0, 200) == list(range(200))
        before = bench.store.requests["get"]
        await entries_between(bench.store, bench.partition, 45, 55)
        assert bench.store.requests["get"] == before + 1
        for offset in (0, 37, 123, 199):
            assert await offset_for_timestamp(bench.store, bench.partition, NOW + offset) == offset
        assert await offset_for_timestamp(bench.store, bench.partition, NOW + 200) is None

    running(test)


def test_data_corrupted_in_transit_is_read_again_and_corrupt_objects_are_named() -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 100)
        bench.store.fault(Fault.CORRUPT, "get_range", at=2)
        assert await bench.read(0, 100) == list(range(100))
        key = FOLDER.key(bench.manifest.entries[0].key)
        data = bytearray(bench.store.contents(key))
        data[100] ^= 1
        bench.store.set_contents(key, bytes(data))
        with pytest.raises(BadObjectError, match=key):
            await bench.read(0, 100)

    running(test)


def test_deleted_object_is_reported_as_loss_once_and_the_rest_is_read() -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 200, 400, 500)
        await bench.store.delete(FOLDER.key(bench.manifest.entries[1].key))
        assert await bench.read(100, 450) == [*range(100, 200), *range(400, 450)]
        (lost,) = bench.lost
        assert lost.startswith("offsets 200 to 399 of orders-0 are lost")

    running(test)


def test_object_deleted_during_a_read_is_reported_as_loss_once() -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 500, 600)
        fetcher = await bench.fetcher(0, 600)
        await fetcher.next()
        await bench.store.delete(FOLDER.key(bench.manifest.entries[0].key))
        while not fetcher.is_done:
            await fetcher.next()
        assert len(bench.lost) == 1

    running(test)


def test_ranges_are_divided_where_segments_end() -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 10, 20, 30, 40)
        entries = bench.manifest.entries
        complete = OffsetRange(TP, 5, 38)
        size = entries[0].size
        assert divide_by_size(complete, entries, 10 * size) == [complete]
        two = divide_by_size(complete, entries, 2 * size + size // 2)
        assert [(part.first, part.until) for part in two] == [(5, 20), (20, 38)]
        each = divide_by_size(complete, entries, 1)
        assert [(part.first, part.until) for part in each] == [(5, 10), (10, 20), (20, 30), (30, 38)]

    running(test)


def test_a_topic_that_is_there_twice_must_be_named_with_its_id() -> None:
    async def test(bench: Bench) -> None:
        await bench.copy(0, 10)
        other = FOLDER._replace(topic_id=bytes(16))
        again = new_manifest(other, WRITER, 0)
        bench.store.set_contents(other.manifest, encode(again))
        cluster = await find_cluster(bench.store, None)
        topics = await find_topics(bench.store, cluster)
        both = {topic: await read_partitions(bench.store, bench.store, topic) for topic in topics}
        with pytest.raises(BucketError, match="two topics orders:"):
            by_name(both)
        ours = TopicFolder(*FOLDER[:3])
        assert select_topics(topics, [ours.name]) == [ours]
        assert by_name({ours: both[ours]}) == {"orders": [bench.partition]}

    running(test)
