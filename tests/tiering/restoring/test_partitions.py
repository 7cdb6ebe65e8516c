"""Partitions of a lost cluster: inspected, truncated at missing objects, claimed for the new cluster."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.tiering.objects import manifest_changes
from barnabas.tiering.objects.manifest import BadManifestError, decode
from barnabas.tiering.restoring.partitions import look, take
from tests.support.builders.segments import FOLDER
from tests.tiering.memory_store import MemoryStore
from tests.tiering.partition_world import Leader, Replica, Truth, manifest_in

T = TypeVar("T")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_changes, "MAX_ENTRIES", 4)
    monkeypatch.setattr(manifest_changes, "PAGE_ENTRIES", 2)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


async def lost(store: MemoryStore, records: int = 40, epoch: int = 3) -> Leader:
    """Segments of five records each; the old ones are listed in pages."""
    leader = Leader(store, Replica(Truth(), 5), epoch)
    await leader.work(leader.append(records), leader.copy)
    return leader


def segments(store: MemoryStore) -> list[str]:
    return [key for key in store.keys if key.endswith(".segment")]


def test_a_whole_partition_is_not_cut_and_looking_changes_nothing() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await lost(store)
        before = {key: store.contents(key) for key in store.keys}
        found = await look(store, FOLDER)
        assert (found.cut_at, found.tiered_end, found.is_deleted) == (None, 40, False)
        assert {key: store.contents(key) for key in store.keys} == before

    run(scenario())


@pytest.mark.parametrize("number", range(8))
def test_the_first_missing_object_cuts(number: int) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await lost(store)
        await store.delete(segments(store)[number])
        found = await look(store, FOLDER)
        assert (found.cut_at, found.tiered_end) == (5 * number, 5 * number)
        assert segments(store)[number - 1] not in found.missing or number == 0
        manifest = await take(store, found, 1)
        assert (manifest.tiered_end, manifest.incarnation) == (5 * number, 1)
        assert manifest == manifest_in(store)
        # Later objects are not deleted: a missing object may be restored.
        assert len(segments(store)) == 7

    run(scenario())


def test_an_object_that_is_cut_short_cuts_too() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await lost(store)
        key = segments(store)[5]
        store.set_contents(key, store.contents(key)[:-3])
        assert (await look(store, FOLDER)).cut_at == 25

    run(scenario())


def test_a_last_footer_that_is_damaged_cuts() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await lost(store)
        key = segments(store)[-1]
        data = bytearray(store.contents(key))
        data[-20] ^= 1
        store.set_contents(key, bytes(data))
        assert (await look(store, FOLDER)).cut_at == 35

    run(scenario())


def test_segments_without_a_manifest_get_a_new_one() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await lost(store, 15)
        await store.delete(FOLDER.manifest)
        found = await look(store, FOLDER)
        assert (found.seen, found.tiered_end) == (None, 15)
        manifest = await take(store, found, 2)
        assert (manifest.tiered_end, manifest.incarnation) == (15, 2)
        assert manifest_in(store) == manifest

    run(scenario())


def test_a_damaged_manifest_is_an_error_and_stays() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await lost(store)
        damaged = store.contents(FOLDER.manifest)[:-9]
        store.set_contents(FOLDER.manifest, damaged)
        with pytest.raises(BadManifestError, match="damaged"):
            await look(store, FOLDER)
        assert store.contents(FOLDER.manifest) == damaged

    run(scenario())


def test_old_cluster_is_fenced_regardless_of_epochs() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await lost(store)
        await take(store, await look(store, FOLDER), 1)
        await leader.work(leader.append(10), leader.copy)
        assert leader.fenced
        later = Leader(store, leader.replica, 99)
        await later.work(later.copy)
        assert later.fenced
        assert manifest_in(store).tiered_end == 40

    run(scenario())


def test_taking_twice_gives_the_later_incarnation() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await lost(store)
        await store.delete(segments(store)[3])
        await take(store, await look(store, FOLDER), 1)
        again = await take(store, await look(store, FOLDER), 2)
        assert (again.incarnation, again.tiered_end) == (2, 15)
        assert decode(store.contents(FOLDER.manifest), FOLDER) == again

    run(scenario())
