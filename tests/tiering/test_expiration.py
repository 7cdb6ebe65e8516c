"""Expired segments are deleted once, after a delay, and not while a snapshot needs them; topics are deleted
completely."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from barnabas.tiering.objects import manifest_changes
from barnabas.tiering.objects.layout import SegmentName
from barnabas.tiering.objects.manifest import (
    Manifest,
    ManifestState,
    ManifestWriter,
    Pin,
    Removed,
    RemovedKind,
    decode_page,
    encode,
)
from barnabas.tiering.objects.manifest_changes import (
    garbage_to_page,
    may_be_deleted,
    new_manifest,
    pin,
    pinned_run,
    unpin,
)
from barnabas.tiering.objects.manifest_file import FencedError, change_manifest
from barnabas.tiering.stores.store import StoreUnavailableError
from barnabas.tiering.writing.expiration import FULL_SWEEP_AGE_MS, delete_partition, expire, sweep, sweep_all
from tests.support.builders.segments import FOLDER, NOW
from tests.tiering.memory_store import Fault, MemoryStore
from tests.tiering.partition_world import Leader, Replica, Truth, check_readable, manifest_in, unlisted

T = TypeVar("T")

HOUR = 3_600_000


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def segments_in(store: MemoryStore) -> list[str]:
    return sorted(key.removeprefix(FOLDER.prefix) for key in store.keys if key.endswith(".segment"))


async def leader_with(store: MemoryStore, records: int, epoch: int = 1) -> Leader:
    leader = Leader(store, Replica(Truth(), 5), epoch)
    await leader.work(leader.append(records), leader.copy)
    return leader


async def pinned(store: MemoryStore, name: str) -> None:
    async def change(manifest: Manifest) -> Manifest:
        return pin(manifest, name, NOW)

    await change_manifest(store, FOLDER, change, lambda manifest: None)


async def unpinned(store: MemoryStore, name: str) -> None:
    async def change(manifest: Manifest) -> Manifest:
        return unpin(manifest, name)

    await change_manifest(store, FOLDER, change, lambda manifest: None)


def test_objects_stay_for_a_while_after_they_left_the_list() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 20)
        assert await expire(store, leader.file, 12, NOW, HOUR) == 0
        assert len(segments_in(store)) == 4
        assert [each.base for each in manifest_in(store).entries] == [10, 15]
        assert await expire(store, leader.file, 12, NOW + HOUR - 1, HOUR) == 0
        assert await expire(store, leader.file, 12, NOW + HOUR, HOUR) == 2
        assert len(segments_in(store)) == 2
        assert manifest_in(store).garbage == ()

    run(scenario())


def test_nothing_to_do_costs_no_request() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 20)
        before = len(store.calls)
        await expire(store, leader.file, 0, NOW, 0)
        assert len(store.calls) == before

    run(scenario())


def test_garbage_waits_for_a_snapshot_that_reads_it() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 20)
        await pinned(store, "snapshot")
        await expire(store, leader.file, 12, NOW, 0)
        assert len(segments_in(store)) == 4
        assert unlisted(store) == set()
        await sweep(store, leader.file)
        await sweep_all(store, leader.file, NOW + FULL_SWEEP_AGE_MS)
        assert len(segments_in(store)) == 4
        await unpinned(store, "snapshot")
        leader.file._seen = None
        await expire(store, leader.file, 13, NOW, 0)
        assert len(segments_in(store)) == 2

    run(scenario())


def test_pages_expire_with_all_that_is_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_changes, "MAX_ENTRIES", 4)
    monkeypatch.setattr(manifest_changes, "PAGE_ENTRIES", 3)

    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 60)
        assert len(manifest_in(store).pages) == 3
        for start in (7, 16, 33, 41):
            await expire(store, leader.file, start, NOW, 0)
            leader.replica.truth.start = start
            await check_readable(store, leader.replica)
            assert unlisted(store) == set()
        assert segments_in(store)[0].startswith(f"{40:020}")
        await sweep_all(store, leader.file, NOW + FULL_SWEEP_AGE_MS)
        await check_readable(store, leader.replica)

    run(scenario())


def test_garbage_that_a_snapshot_keeps_is_paged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_changes, "MAX_ENTRIES", 8)
    monkeypatch.setattr(manifest_changes, "PAGE_ENTRIES", 4)

    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 35)
        for day in range(
            6
        ):  # a snapshot each day, of records that expire a day later: never many live entries
            await pinned(store, f"snapshot-{day}")
            leader.file._seen = None
            for _ in range(2):  # rounds
                await expire(store, leader.file, manifest_in(store).tiered_end - 10, NOW, 0)
            await leader.work(leader.append(25), leader.copy)
        manifest = manifest_in(store)
        assert len(segments_in(store)) == 37
        assert len(manifest.garbage) <= 8 + 37 // 4
        assert unlisted(store) == set()
        await sweep_all(store, leader.file, NOW + FULL_SWEEP_AGE_MS)
        assert len(segments_in(store)) == 37
        for day in range(6):
            await unpinned(store, f"snapshot-{day}")
        leader.file._seen = None
        await expire(store, leader.file, manifest.tiered_end - 10, NOW, 0)
        assert len(segments_in(store)) == 2
        assert (manifest_in(store).garbage, unlisted(store)) == ((), set())
        assert not [key for key in store.keys if key.endswith(".page")]

    run(scenario())


def test_full_sweep_deletes_only_old_unlisted_objects_of_earlier_leaders() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 20, epoch=5)
        old, own = "00000000000000000003-0000000004-0000abcd", "00000000000000000003-0000000005-0000abcd"
        for name in (f"{old}.segment", f"{old}.page", f"{own}.segment", "notes.txt"):
            store.set_contents(FOLDER.key(name), b"x")
        assert await sweep_all(store, leader.file, NOW + FULL_SWEEP_AGE_MS - 1) == []
        removed = await sweep_all(store, leader.file, NOW + FULL_SWEEP_AGE_MS)
        assert removed == [FOLDER.key(f"{old}.page"), FOLDER.key(f"{old}.segment")]
        assert FOLDER.key("notes.txt") in store.keys
        await check_readable(store, leader.replica)

    run(scenario())


def test_sweep_lists_only_above_its_mark() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 20, epoch=5)
        for base in (3, 20, 22):
            store.set_contents(FOLDER.key(f"{base:020}-0000000004-0000abcd.segment"), b"x")
        truth = Truth()
        truth.append(20, 5)
        second = Leader(store, Replica(truth, 5), 6)
        second.replica.local_start = 20
        await second.claim()
        assert second.file.manifest.sweep == 0  # the first leader swept when there was nothing
        await second.sweep()
        assert manifest_in(store).sweep == 20
        assert unlisted(store) == set()

    run(scenario())


def test_a_deleted_topic_leaves_nothing() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 20)
        store.set_contents(FOLDER.key("00000000000000000030-0000000001-0000abcd.segment"), b"an orphan")
        store.set_contents("cluster/topics/other.AAECAwQFBgcICQoLDA0ODw/0/manifest", b"another topic")
        assert await delete_partition(store, FOLDER, 0)
        assert store.keys == ["cluster/topics/other.AAECAwQFBgcICQoLDA0ODw/0/manifest"]
        leader.replica.truth.append(20, 1)
        with pytest.raises(FencedError, match="deleted"):
            await leader.copier.copy_next()
        assert len(store.keys) == 1
        assert await delete_partition(store, FOLDER, 0)

    run(scenario())


def test_a_leader_whose_topic_is_deleted_stops() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 20)
        await pinned(store, "snapshot")
        assert not await delete_partition(store, FOLDER, 0)
        assert manifest_in(store).state is ManifestState.DELETED
        assert len(segments_in(store)) == 4
        leader.replica.truth.append(20, 1)
        with pytest.raises(FencedError, match="deleted"):
            await leader.copier.copy_next()
        assert len(segments_in(store)) == 4  # its uploads are deleted again
        await unpinned(store, "snapshot")
        assert await delete_partition(store, FOLDER, 0)
        assert not store.keys

    run(scenario())


def test_another_incarnation_of_the_cluster_does_not_delete() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 20)
        with pytest.raises(FencedError, match="incarnation"):
            await delete_partition(store, FOLDER, 1)
        assert len(segments_in(store)) == 4

    run(scenario())


def test_restored_cluster_continues_a_started_deletion() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 20)
        manifest = replace(leader.file.manifest, state=ManifestState.DELETED)
        store.set_contents(FOLDER.manifest, encode(manifest))
        assert await delete_partition(store, FOLDER, 1)
        assert not store.keys

    run(scenario())


@pytest.mark.parametrize("fault", list(Fault))
def test_a_deletion_that_fails_at_any_call_is_repeated_to_the_end(fault: Fault) -> None:
    async def scenario(failing: int) -> None:
        store = MemoryStore(lambda number, call, key: fault if number == failing else None)
        while not store.keys:
            try:
                await leader_with(store, 20)
            except StoreUnavailableError:
                continue
        for _ in range(3):
            try:
                await delete_partition(store, FOLDER, 0)
            except StoreUnavailableError:
                continue
        store.settle()
        assert not store.keys

    for failing in range(25, 45):
        run(scenario(failing))


def test_a_month_of_garbage_makes_no_large_manifest() -> None:
    """A segment a minute, and a snapshot that keeps them all."""
    count = 30 * 24 * 60
    garbage = tuple(
        Removed(str(SegmentName(number, 1, f"{number:08x}")), number, number + 1, 1 << 20, NOW, 5)
        for number in range(count)
    )
    manifest = new_manifest(FOLDER, ManifestWriter(0, 1, "a test"), count, NOW)
    manifest = replace(manifest, garbage=garbage, pins=(Pin("snapshot", 1, 0, count, NOW),))
    assert len(encode(manifest)) > 2_500_000
    pages = {}
    while run_ := pinned_run(manifest):
        manifest, name, data = garbage_to_page(manifest, run_, 1)
        pages[name] = data
    assert len(encode(manifest)) < 200_000
    listed = [each.key for name, data in pages.items() for each in decode_page(data, name)]
    left = [each.key for each in manifest.garbage if each.kind is RemovedKind.SEGMENT]
    assert sorted(listed + left) == sorted(each.key for each in garbage)
    assert not any(may_be_deleted(manifest, each) for each in manifest.garbage)
