import asyncio
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings

from barnabas.cluster.deltas import Delta, FeatureFinalized, apply
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.cluster.snapshots import DamagedMetadataError
from barnabas.cluster.store import (
    LOG_FILE,
    SNAPSHOT_FILE,
    FileMetadataStore,
    MemoryMetadataStore,
    MetadataStore,
    MetadataStoreError,
    SerialExecutor,
    StaleControllerError,
)
from barnabas.common.files import LocalFileSystem
from tests.cluster.histories import histories, replay

A: list[Delta] = [FeatureFinalized("a", 1)]
B: list[Delta] = [FeatureFinalized("b", 1)]


async def at_once(work: Callable[[], None]) -> None:
    work()


def file_store(folder: Path) -> FileMetadataStore:
    return FileMetadataStore(LocalFileSystem(), str(folder), run_blocking=at_once)


async def write(store: MetadataStore, entries: list[list[Delta]], epoch: int = 1) -> MetadataImage:
    image = await store.load()
    for deltas in entries:
        await store.append(image.offset, epoch, deltas)
        image = apply(image, deltas)
    return image


async def load_again(folder: Path) -> MetadataImage:
    store = file_store(folder)
    try:
        return await store.load()
    finally:
        await store.close()


def written(folder: Path, entries: list[list[Delta]]) -> bytes:
    async def main() -> None:
        store = file_store(folder)
        await write(store, entries)
        await store.close()

    asyncio.run(main())
    return (folder / LOG_FILE).read_bytes()


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MetadataStore:
    return file_store(tmp_path) if request.param == "file" else MemoryMetadataStore()


def test_an_empty_store_holds_the_empty_image(store: MetadataStore) -> None:
    assert asyncio.run(store.load()) == EMPTY_IMAGE


def test_an_append_returns_the_offset_of_its_entry(store: MetadataStore) -> None:
    async def main() -> None:
        await store.load()
        assert await store.append(0, 1, A) == 1
        assert await store.append(1, 1, B) == 2

    asyncio.run(main())


def test_an_append_behind_the_head_is_refused_and_changes_nothing(store: MetadataStore) -> None:
    async def main() -> None:
        await write(store, [A])
        with pytest.raises(StaleControllerError):
            await store.append(0, 1, B)
        assert (await store.load()).features == {"a": 1}

    asyncio.run(main())


def test_a_controller_of_an_older_epoch_is_refused(store: MetadataStore) -> None:
    async def main() -> None:
        await write(store, [A], epoch=5)
        with pytest.raises(StaleControllerError):
            await store.append(1, 4, B)

    asyncio.run(main())


@settings(max_examples=50, deadline=None)
@given(histories())
def test_loading_returns_the_stored_state(entries: list[list[Delta]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), entries)
        assert asyncio.run(load_again(Path(folder))) == replay(entries)


@settings(max_examples=50, deadline=None)
@given(histories(), histories())
def test_a_snapshot_and_the_entries_behind_it_are_as_good_as_all_entries(
    before: list[list[Delta]], after: list[list[Delta]]
) -> None:
    async def main(folder: Path) -> None:
        store = file_store(folder)
        image = await write(store, before)
        log = (folder / LOG_FILE).read_bytes()
        await store.save_snapshot(image)
        assert (folder / LOG_FILE).read_bytes() == b""
        await store.append(image.offset, 1, A)
        await store.close()
        assert await load_again(folder) == apply(image, A)
        # A crash right after the snapshot was written: the log still holds everything.
        (folder / LOG_FILE).write_bytes(log)
        assert await load_again(folder) == image

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))


def test_a_log_cut_at_any_byte_of_its_last_entry_is_the_log_without_that_entry(tmp_path: Path) -> None:
    complete = written(tmp_path, [A, B, [FeatureFinalized("c", 2)]])
    shorter = len(written(tmp_path / "shorter", [A, B]))
    for length in range(shorter, len(complete)):
        (tmp_path / LOG_FILE).write_bytes(complete[:length])
        assert asyncio.run(load_again(tmp_path)) == replay([A, B])
        assert (tmp_path / LOG_FILE).read_bytes() == complete[:shorter], "the torn tail must be cut off"


def test_a_last_entry_whose_bytes_never_reached_the_disk_is_cut_off(tmp_path: Path) -> None:
    complete = written(tmp_path, [A, B])
    shorter = len(written(tmp_path / "shorter", [A]))
    for tail in (bytes(len(complete) - shorter), bytes(4096), complete[shorter:-9] + bytes(9)):
        (tmp_path / LOG_FILE).write_bytes(complete[:shorter] + tail)
        assert asyncio.run(load_again(tmp_path)) == replay([A])


def test_writing_continues_after_a_truncated_tail(tmp_path: Path) -> None:
    complete = written(tmp_path, [A, B])
    (tmp_path / LOG_FILE).write_bytes(complete[:-1])
    written(tmp_path, [B])
    assert (tmp_path / LOG_FILE).read_bytes() == complete


def test_damage_with_good_entries_behind_it_is_never_cut_off(tmp_path: Path) -> None:
    complete = written(tmp_path, [A, B])
    first = len(written(tmp_path / "first", [A]))
    for position in range(first):
        damaged = bytearray(complete)
        damaged[position] ^= 0x40
        (tmp_path / LOG_FILE).write_bytes(damaged)
        with pytest.raises(DamagedMetadataError, match="byte 0"):
            asyncio.run(load_again(tmp_path))
        assert (tmp_path / LOG_FILE).read_bytes() == damaged


def test_a_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        store = file_store(tmp_path)
        await store.save_snapshot(await write(store, [A, B]))
        await store.close()
        snapshot = bytearray((tmp_path / SNAPSHOT_FILE).read_bytes())
        snapshot[-1] ^= 1
        (tmp_path / SNAPSHOT_FILE).write_bytes(snapshot)
        with pytest.raises(DamagedMetadataError, match="backup"):
            await load_again(tmp_path)

    asyncio.run(main())


def test_a_log_that_lacks_an_entry_is_refused(tmp_path: Path) -> None:
    first = len(written(tmp_path / "first", [A]))
    complete = written(tmp_path, [A, B])
    (tmp_path / LOG_FILE).write_bytes(complete[first:])
    with pytest.raises(DamagedMetadataError, match="lacks entry 1"):
        asyncio.run(load_again(tmp_path))


def test_a_snapshot_is_wanted_once_the_log_has_grown(tmp_path: Path) -> None:
    async def main() -> None:
        store = FileMetadataStore(
            LocalFileSystem(), str(tmp_path), run_blocking=at_once, snapshot_at_bytes=150
        )
        image = await write(store, [A])
        wanted = [store.wants_snapshot]
        await store.append(1, 1, B)
        wanted.append(store.wants_snapshot)
        await store.save_snapshot(apply(image, B))
        wanted.append(store.wants_snapshot)
        assert wanted == [False, True, False]
        await store.close()

    asyncio.run(main())


def test_a_closed_store_refuses_to_write(tmp_path: Path) -> None:
    async def main() -> None:
        store = file_store(tmp_path)
        await store.load()
        await store.close()
        with pytest.raises(MetadataStoreError):
            await store.append(0, 1, A)

    asyncio.run(main())


def test_writing_in_a_thread_gives_the_same_file(tmp_path: Path) -> None:
    async def main() -> None:
        store = FileMetadataStore(LocalFileSystem(), str(tmp_path))
        await write(store, [A, B])
        await store.close()
        assert await load_again(tmp_path) == replay([A, B])

    asyncio.run(main())


def test_steps_run_sequentially_in_the_requested_order() -> None:
    log: list[str] = []

    async def main() -> None:
        executor = SerialExecutor()

        async def step(name: str) -> None:
            log.append(f"{name} begins")
            await asyncio.sleep(0)
            log.append(f"{name} ends")

        await asyncio.gather(*(executor.run(partial(step, name)) for name in "ab"))

    asyncio.run(main())
    assert log == ["a begins", "a ends", "b begins", "b ends"]


def test_step_ends_even_if_its_caller_has_disconnected() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        begun, done = asyncio.Event(), asyncio.Event()

        async def step() -> None:
            begun.set()
            await asyncio.sleep(0)
            done.set()

        caller = asyncio.ensure_future(executor.run(step))
        await begun.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await asyncio.wait_for(done.wait(), 5)

    asyncio.run(main())
