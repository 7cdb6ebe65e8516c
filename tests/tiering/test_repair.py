"""A lost manifest is rebuilt from segments, and every damaged object is found."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from barnabas.tiering.objects import manifest_changes
from barnabas.tiering.objects.manifest import ManifestWriter
from barnabas.tiering.objects.manifest_file import read_manifest
from barnabas.tiering.repair import chain, find_pins, manifest_object, rebuild, verify, write_rebuilt
from barnabas.tiering.snapshots import clone_partition, create_snapshot
from barnabas.tiering.stores.store import StaleVersionError
from tests.support.builders.segments import FOLDER, NOW, entry
from tests.tiering.memory_store import MemoryStore
from tests.tiering.partition_world import Leader, Replica, Truth, check_readable, manifest_in, remote_offsets

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


async def leader_with(store: MemoryStore, records: int) -> Leader:
    leader = Leader(store, Replica(Truth(), 5), 1)
    await leader.work(leader.append(records), leader.copy)
    return leader


def damage(store: MemoryStore, key: str, position: int) -> None:
    data = bytearray(store.contents(key))
    data[position] ^= 1
    store.set_contents(key, bytes(data))


async def repaired(store: MemoryStore) -> Any:
    found = await rebuild(store, FOLDER, 0, NOW, await find_pins(store, FOLDER))
    await write_rebuilt(store, FOLDER, found.manifest, NOW, await manifest_object(store, FOLDER))
    return found


@pytest.mark.parametrize("is_missing", [False, True])
def test_manifest_is_rebuilt_from_footers_and_used_by_the_leader(is_missing: bool) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = await leader_with(store, 40)
        entries = manifest_in(store).entries
        garbage = b"garbage"
        if is_missing:
            store.remove(FOLDER.manifest)
        else:
            store.set_contents(FOLDER.manifest, garbage)
        found = await repaired(store)
        assert found.manifest.entries == entries
        assert all(each.problem is None for each in found.findings)
        assert is_missing or store.contents(FOLDER.key(f"manifest.replaced-{NOW}")) == garbage
        again = Leader(store, leader.replica, 1)
        await again.work(again.append(20), again.copy)
        assert not again.fenced
        assert manifest_in(store).tiered_end == 60
        await check_readable(store, leader.replica)

    run(scenario())


@pytest.mark.parametrize("is_missing", [False, True])
def test_concurrently_changed_manifest_is_not_replaced(is_missing: bool) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 40)
        sound = store.contents(FOLDER.manifest)
        store.remove(FOLDER.manifest) if is_missing else store.set_contents(FOLDER.manifest, b"garbage")
        seen = await manifest_object(store, FOLDER)
        found = await rebuild(store, FOLDER, 0, NOW)
        store.set_contents(FOLDER.manifest, sound)
        with pytest.raises(StaleVersionError, match="run the command again"):
            await write_rebuilt(store, FOLDER, found.manifest, NOW, seen)
        assert store.contents(FOLDER.manifest) == sound

    run(scenario())


def test_with_pages_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_changes, "MAX_ENTRIES", 4)
    monkeypatch.setattr(manifest_changes, "PAGE_ENTRIES", 2)

    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 60)
        before = await remote_offsets(store)
        store.set_contents(FOLDER.manifest, b"")
        await repaired(store)
        assert await remote_offsets(store) == before

    run(scenario())


def test_damaged_segment_is_skipped_and_named_and_earlier_ones_are_kept() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 20)
        entries = manifest_in(store).entries
        damage(store, FOLDER.key(entries[1].key), -20)
        store.set_contents(FOLDER.manifest, b"")
        found = await repaired(store)
        assert [each.key for each in found.findings if each.problem] == [FOLDER.key(entries[1].key)]
        assert found.manifest.entries == entries[2:]
        assert [each.key for each in found.manifest.quarantine] == [entries[0].key]
        assert found.manifest.log_start == 10

    run(scenario())


def test_a_chain_has_no_gap_and_no_overlap_and_reaches_the_highest_offset() -> None:
    orphan, later = entry(10, 15, epoch=1), entry(10, 20, epoch=2)
    assert chain([entry(0, 10), orphan, later, entry(20, 30, 2)]) == (entry(0, 10), later, entry(20, 30, 2))
    assert chain([entry(0, 10), entry(10, 20, 1), later]) == (entry(0, 10), later)
    assert chain([entry(0, 10), entry(12, 20)]) == (entry(12, 20),)
    assert chain([]) == ()


@pytest.mark.parametrize("written", [7, 37], ids=["less than was cut", "more than was cut"])
@pytest.mark.parametrize("cut_at", [20, 23], ids=["between segments", "in a segment"])
def test_records_cut_by_an_unclean_election_stay_cut(written: int, cut_at: int) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 40)
        history = Truth()
        history.append(cut_at, 1)
        history.append(written, 2)
        unclean = Leader(store, Replica(history, 5), 2)
        await unclean.work(unclean.copy)
        before = manifest_in(store)
        assert (before.tiered_end, len(before.quarantine) > 0) == ((cut_at + written) // 5 * 5, True)
        store.set_contents(FOLDER.manifest, b"")
        found = await repaired(store)
        assert found.manifest.entries == before.entries
        assert {each.key for each in found.manifest.quarantine} == {each.key for each in before.quarantine}
        await check_readable(store, unclean.replica)

    run(scenario())


def test_snapshots_and_clones_keep_the_objects_they_read() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 20)
        await create_snapshot(store, "cluster", "s", [FOLDER], NOW)
        target = FOLDER._replace(topic="clone", topic_id=bytes(range(1, 17)))
        await clone_partition(store, "s", FOLDER, target, 0, NOW)
        pins = {each.name: each for each in manifest_in(store).pins}
        store.set_contents(FOLDER.manifest, b"")
        await repaired(store)
        manifest = manifest_in(store)
        assert {each.name for each in manifest.pins} == set(pins)
        assert pins["snapshot s"] in manifest.pins
        dropped = manifest_changes.raise_log_start(manifest, 20, NOW)
        assert not any(manifest_changes.may_be_deleted(dropped, each) for each in dropped.garbage)

    run(scenario())


def test_earlier_leaders_stay_fenced() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = Leader(store, Replica(Truth(), 5), 3)
        await leader.work(leader.append(20), leader.copy)
        store.set_contents(FOLDER.manifest, b"")
        await repaired(store)
        zombie = Leader(store, leader.replica, 2)
        await zombie.work(zombie.append(20), zombie.copy)
        assert zombie.fenced
        seen = await read_manifest(store, FOLDER)
        assert seen is not None
        assert seen.manifest.leader_epoch == 2
        assert ManifestWriter(*manifest_in(store).fence, "") < ManifestWriter(0, 3, "")

    run(scenario())


def test_verify_finds_every_damaged_or_missing_object() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await leader_with(store, 30)
        manifest = manifest_in(store)

        async def bad() -> list[str]:
            return [each.key async for each in verify(store, FOLDER, manifest) if each.problem]

        assert await bad() == []
        keys = [FOLDER.key(each.key) for each in manifest.entries]
        damage(store, keys[0], 30)  # a record
        damage(store, keys[1], manifest.entries[1].footer - 1)  # a section
        damage(store, keys[2], -30)  # the footer
        store.set_contents(keys[3], store.contents(keys[3])[:-1])
        store.remove(keys[4])
        assert await bad() == keys[:5]
        foreign = replace(manifest, entries=(replace(manifest.entries[5], crc=1),))
        assert [each.problem async for each in verify(store, FOLDER, foreign)] != [None]

    run(scenario())
