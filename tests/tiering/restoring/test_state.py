"""Saved cluster state, clusters in a bucket, and permission to write."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from barnabas.tiering.objects.layout import PartitionFolder, group_state_key, incarnation_key
from barnabas.tiering.restoring.discovery import (
    DamagedStateError,
    begin_incarnation,
    find_clusters,
    find_partitions,
    raise_incarnation,
    read_incarnation,
)
from barnabas.tiering.restoring.state import (
    KEPT,
    SavedGroupOffset,
    SavedGroupState,
    encode_group_state,
    read_cluster_state,
    read_group_state,
    write_cluster_state,
    write_group_state,
)
from tests.support.builders.segments import NOW
from tests.support.tiering.stores import folder_store
from tests.tiering.memory_store import Fault, MemoryStore

T = TypeVar("T")

OFFSET = SavedGroupOffset("group", "orders", 0, 7, 1, "", NOW, -1, "AAAAAAAAAAAAAAAAAAAAAA")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def test_incarnations_count_up_and_the_first_one_is_nothing() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        assert await read_incarnation(store, "c") == 0
        await begin_incarnation(store, "c", NOW)
        await begin_incarnation(store, "c", NOW)
        assert [await raise_incarnation(store, "c", NOW) for _ in range(2)] == [1, 2]
        assert await read_incarnation(store, "c") == 2
        assert await read_incarnation(store, "another") == 0

    run(scenario())


def test_an_answer_that_gets_lost_costs_a_number_at_most() -> None:
    async def scenario() -> None:
        store = MemoryStore(lambda number, call, key: Fault.LOST if number == 2 else None)
        number = await raise_incarnation(store, "c", NOW)
        assert number == await read_incarnation(store, "c") > 0

    run(scenario())


def test_a_damaged_incarnation_is_an_error() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        store.set_contents(incarnation_key("c"), b'{"crc": 1, "body": {"number": 4}}')
        with pytest.raises(DamagedStateError, match="c/incarnation is damaged"):
            await read_incarnation(store, "c")

    run(scenario())


def test_the_newest_metadata_of_the_latest_incarnation_are_read_and_few_are_kept() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        for offset in (5, 90, 1000):
            await write_cluster_state(store, "c", 0, offset, b"%d" % offset)
        await write_cluster_state(store, "c", 1, 6, b"restored")
        state = await read_cluster_state(store, "c")
        assert state is not None
        assert (state.incarnation, state.data) == (1, b"restored")
        assert sum(key.startswith("c/cluster/") for key in store.keys) == KEPT
        assert await read_cluster_state(store, "another") is None

    run(scenario())


def test_offsets_of_a_later_coordinator_are_not_overwritten() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        key = group_state_key("c", 0, 3)
        newest = encode_group_state(SavedGroupState(5, 11, ()))
        first = await write_group_state(store, key, 4, encode_group_state(SavedGroupState(4, 10, (OFFSET,))))
        assert first is not None
        assert await write_group_state(store, key, 5, newest) is not None
        assert await write_group_state(store, key, 4, b"late", first) is None
        assert await write_group_state(store, key, 4, b"late") is None
        assert await read_group_state(store, "c", 0, 3) == SavedGroupState(5, 11, ())
        assert await read_group_state(store, "c", 1, 3) is None

    run(scenario())


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_clusters_and_topics_are_found_without_listing_every_object(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        store = MemoryStore() if kind == "memory" else folder_store(tmp_path)()
        ids = {name: bytes([number] * 16) for number, name in enumerate(("a", "b", "b.c", "z"))}
        folders = [PartitionFolder("c1", name, ids[name], index) for name in ids for index in (0, 1, 10)]
        for folder in folders:
            await store.put(folder.manifest, b"")
            await store.put(folder.key("00000000000000000000-0000000000-00000000.segment"), b"")
        await store.put("c0/incarnation", b"")
        await store.put("c10/cluster/0000000000-00000000000000000001", b"")
        await store.put("something/else", b"")
        await store.put("zebra", b"")
        assert await find_clusters(store) == ["c0", "c1", "c10"]
        known = [("b", ids["b"]), ("a", ids["a"])]
        found = [each async for each in find_partitions(store, "c1", known)]
        assert found == [each for each in folders if each.topic in ("b.c", "z")]
        assert [each async for each in find_partitions(store, "c10", ())] == []
        await store.close()

    run(scenario())
