"""The metadata log on a disk with power failures, full disk and errors: no acknowledged entry is lost."""

import asyncio
import contextlib
import errno
import random
from collections.abc import Callable

import pytest

from barnabas.cluster.deltas import Delta, FeatureFinalized, apply
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.cluster.store import FileMetadataStore, MetadataStoreError
from barnabas.testing.files import FaultyFileSystem, PowerLost

FOLDER = "/data/__barnabas_metadata"
ENTRIES = 8


def entry(number: int) -> list[Delta]:
    return [FeatureFinalized("count", number)]


def image_after(entries: int) -> MetadataImage:
    image = EMPTY_IMAGE
    for number in range(1, entries + 1):
        image = apply(image, entry(number))
    return image


async def at_once(work: Callable[[], None]) -> None:
    work()


def store_on(fs: FaultyFileSystem) -> FileMetadataStore:
    return FileMetadataStore(fs, FOLDER, run_blocking=at_once, snapshot_at_bytes=200)


def disk() -> FaultyFileSystem:
    fs = FaultyFileSystem()
    fs.make_folders("/data")
    fs.sync_folder("/")
    return fs


async def write(fs: FaultyFileSystem, acknowledged: list[int]) -> None:
    """Write entries, with a snapshot whenever one is wanted, and note each that was acknowledged."""
    store = store_on(fs)
    image = await store.load()
    for number in range(image.offset + 1, image.offset + 1 + ENTRIES):
        await store.append(image.offset, 1, entry(number))
        image = apply(image, entry(number))
        acknowledged.append(number)
        if store.wants_snapshot:
            await store.save_snapshot(image)


def load(fs: FaultyFileSystem) -> MetadataImage:
    return asyncio.run(store_on(fs).load())


def test_acknowledged_records_survive_a_power_failure_at_any_time() -> None:
    complete = disk()
    asyncio.run(write(complete, []))
    crash_points = len(complete.operations)
    assert any("rename" in kind for kind in complete.operations), "the test must go through a snapshot"
    for crash_point in range(1, crash_points + 1):
        for seed in range(8):
            fs, acknowledged = disk(), list[int]()
            fs.lose_power_at(crash_point)
            with contextlib.suppress(PowerLost):
                asyncio.run(write(fs, acknowledged))
            image = load(fs.crash(torn=random.Random(seed) if seed else None))
            # The entry that was being written may be there or not; any other is as it was acknowledged.
            assert image.offset - len(acknowledged) in (0, 1)
            assert image == image_after(image.offset)


def test_writing_continues_after_a_power_failure() -> None:
    for crash_point in range(1, 40):
        fs, acknowledged = disk(), list[int]()
        fs.lose_power_at(crash_point)
        with contextlib.suppress(PowerLost):
            asyncio.run(write(fs, acknowledged))
        fs = fs.crash(torn=random.Random(crash_point))
        offset = load(fs).offset
        asyncio.run(write(fs, []))
        assert load(fs.crash()) == image_after(offset + ENTRIES)


def test_a_full_disk_refuses_an_entry_and_keeps_the_others() -> None:
    async def main() -> None:
        fs = disk()
        store = store_on(fs)
        await store.load()
        await store.append(0, 1, entry(1))
        fs.space = 10
        with pytest.raises(MetadataStoreError, match="cannot be written"):
            await store.append(1, 1, entry(2))
        fs.space = 10_000
        await store.append(1, 1, entry(2))
        assert await store_on(fs.crash()).load() == image_after(2)

    asyncio.run(main())


def test_after_a_failed_sync_nothing_more_is_written() -> None:
    async def main() -> None:
        fs = disk()
        store = store_on(fs)
        await store.load()
        fs.fail_at(1, OSError(errno.EIO, "bad sector"), "sync")
        with pytest.raises(MetadataStoreError, match="could not be synced"):
            await store.append(0, 1, entry(1))
        with pytest.raises(MetadataStoreError, match="could not be synced"):
            await store.append(0, 1, entry(1))

    asyncio.run(main())


def test_a_snapshot_that_cannot_be_written_costs_nothing() -> None:
    async def main() -> None:
        fs = disk()
        store = store_on(fs)
        image = await store.load()
        for _ in range(ENTRIES):
            await store.append(image.offset, 1, entry(image.offset + 1))
            image = apply(image, entry(image.offset + 1))
        fs.fail_at(1, OSError(errno.EIO, "bad sector"), "rename")
        wanted = [store.wants_snapshot]
        await store.save_snapshot(image)
        wanted.append(store.wants_snapshot)
        assert wanted == [True, False], "an attempt with every entry would be too many"
        await store.append(image.offset, 1, entry(image.offset + 1))
        assert await store_on(fs.crash()).load() == image_after(image.offset + 1)

    asyncio.run(main())
