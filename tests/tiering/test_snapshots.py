"""Snapshots keep objects without copying; a clone reads the objects of its source."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from barnabas.tiering.objects import manifest_changes
from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import Manifest, ManifestWriter, decode
from barnabas.tiering.objects.manifest_file import read_page
from barnabas.tiering.repair import verify
from barnabas.tiering.snapshots import (
    SnapshotError,
    SnapshotState,
    clone_partition,
    create_snapshot,
    delete_snapshot,
    list_snapshots,
    read_copy,
)
from barnabas.tiering.stores.store import StoreUnavailableError
from barnabas.tiering.writing.claim import Decision, LogView, claim_manifest
from barnabas.tiering.writing.expiration import delete_partition, expire
from tests.support.builders.segments import FOLDER, NOW
from tests.tiering.memory_store import Fault, MemoryStore
from tests.tiering.partition_world import Leader, Replica, Truth, manifest_in

T = TypeVar("T")

TARGET = PartitionFolder("cluster", "orders-of-yesterday", bytes(range(1, 17)), 0)
ABSENT = FOLDER._replace(partition=7)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_changes, "MAX_ENTRIES", 4)
    monkeypatch.setattr(manifest_changes, "PAGE_ENTRIES", 2)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


async def leader_with(store: MemoryStore, records: int) -> Leader:
    leader = Leader(store, Replica(Truth(), 5), 1)
    await leader.work(leader.append(records), leader.copy)
    return leader


async def names_of(store: MemoryStore) -> list[tuple[str, str]]:
    return [(each.name, each.state) async for each in list_snapshots(store, "cluster")]


async def problems(store: MemoryStore, folder: PartitionFolder, manifest: Manifest) -> list[Any]:
    return [each async for each in verify(store, folder, manifest) if each.problem]


async def expire_all(store: MemoryStore, leader: Leader, start: int) -> None:
    leader.file._seen = None
    await expire(store, leader.file, start, NOW, 0)


def test_a_snapshot_can_be_read_after_everything_has_expired() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 40)
        seen: list[Any] = []
        snapshot = await create_snapshot(store, "cluster", "yesterday", [FOLDER, ABSENT], NOW, seen.append)
        assert snapshot.state is SnapshotState.COMPLETE
        assert list(snapshot.partitions) == seen
        assert [(each.prefix, each.log_start, each.tiered_end) for each in seen] == [(FOLDER.prefix, 0, 40)]
        assert await names_of(store) == [("yesterday", "complete")]

        await expire_all(store, leader, 40)
        copy = await read_copy(store, "yesterday", FOLDER)
        assert await problems(store, FOLDER, copy) == []

        await delete_snapshot(store, "cluster", "yesterday")
        assert await names_of(store) == []
        await expire_all(store, leader, 40)
        assert store.keys == [FOLDER.manifest]

    run(scenario())


def test_names_are_given_once_and_are_plain() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 10)
        await create_snapshot(store, "cluster", "a", [FOLDER], NOW)
        with pytest.raises(SnapshotError, match="already"):
            await create_snapshot(store, "cluster", "a", [FOLDER], NOW)
        for name in ("", "a/b", "..", "x" * 101, "ä"):
            with pytest.raises(SnapshotError, match="letters"):
                await create_snapshot(store, "cluster", name, [FOLDER], NOW)
        with pytest.raises(SnapshotError, match="does not exist"):
            await delete_snapshot(store, "cluster", "b")

    run(scenario())


def test_clone_reads_segments_that_its_source_has_deleted_until_it_deletes_them() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 40)
        await create_snapshot(store, "cluster", "yesterday", [FOLDER], NOW)
        objects = len(store.keys)
        manifest = await clone_partition(store, "yesterday", FOLDER, TARGET, 0, NOW)
        assert len(store.keys) == objects + 1
        assert await clone_partition(store, "yesterday", FOLDER, TARGET, 0, NOW) == manifest
        await delete_snapshot(store, "cluster", "yesterday")
        await expire_all(store, leader, 40)
        assert await problems(store, TARGET, manifest) == []
        page = await read_page(store, TARGET, manifest.pages[0])
        assert page[0].key.startswith(FOLDER.prefix)

        view = LogView(0, 0, 0, ())
        claim = await claim_manifest(
            store, TARGET, ManifestWriter(0, manifest.latest_epoch + 1, "new"), view, NOW
        )
        assert (claim.decision, claim.start_at) == (Decision.START_AT, 40)
        await expire(store, claim.file, 12, NOW, 0)
        assert await problems(store, TARGET, claim.file.manifest) == []
        await expire(store, claim.file, 40, NOW, 0)
        assert claim.file.manifest.sources == ()
        assert manifest_in(store).pins == ()
        await expire_all(store, leader, 40)
        assert store.keys == sorted([FOLDER.manifest, TARGET.manifest])

    run(scenario())


def test_deleted_clone_releases_its_source_and_a_deleted_source_waits_for_its_clone() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 20)
        await create_snapshot(store, "cluster", "yesterday", [FOLDER], NOW)
        manifest = await clone_partition(store, "yesterday", FOLDER, TARGET, 0, NOW)
        assert not await delete_partition(store, FOLDER, 0)
        await delete_snapshot(store, "cluster", "yesterday")
        assert await problems(store, TARGET, manifest) == []
        assert await delete_partition(store, TARGET, 0)
        assert await delete_partition(store, FOLDER, 0)
        assert not store.keys

    run(scenario())


def test_a_clone_of_a_clone_keeps_the_first_source() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 20)
        await create_snapshot(store, "cluster", "first", [FOLDER], NOW)
        await clone_partition(store, "first", FOLDER, TARGET, 0, NOW)
        await delete_snapshot(store, "cluster", "first")
        await create_snapshot(store, "cluster", "second", [TARGET], NOW)
        third = TARGET._replace(topic="third", topic_id=bytes(range(2, 18)))
        manifest = await clone_partition(store, "second", TARGET, third, 0, NOW)
        await delete_snapshot(store, "cluster", "second")
        assert await delete_partition(store, TARGET, 0) is False
        await expire_all(store, leader, 20)
        assert await problems(store, third, manifest) == []
        assert decode(store.contents(third.manifest), third) == manifest

    run(scenario())


def test_topic_deleted_while_a_snapshot_keeps_it_is_removed_with_the_snapshot() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 20)
        await create_snapshot(store, "cluster", "last", [FOLDER], NOW)
        assert not await delete_partition(store, FOLDER, 0)
        await delete_snapshot(store, "cluster", "last")
        assert not store.keys

    run(scenario())


@pytest.mark.parametrize("fault", list(Fault))
def test_a_snapshot_whose_making_fails_is_deleted_and_leaves_no_pin(fault: Fault) -> None:
    async def scenario(failing: int) -> None:
        store = MemoryStore()
        await leader_with(store, 20)
        first = len(store.calls)
        store.decide = lambda number, call, key: fault if number == first + failing else None
        with suppress(StoreUnavailableError):
            await create_snapshot(store, "cluster", "s", [FOLDER], NOW)
        store.heal()
        if await names_of(store):
            await delete_snapshot(store, "cluster", "s")
        store.settle()
        if await names_of(store):
            await delete_snapshot(store, "cluster", "s")
        assert manifest_in(store).pins == ()
        assert not [key for key in store.keys if "snapshots" in key]

    for failing in range(1, 8):
        run(scenario(failing))
