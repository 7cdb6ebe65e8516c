"""The contract of object stores, for all implementations."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.tiering.stores.probe import FOLDER, probe
from barnabas.tiering.stores.store import (
    BrowsableStore,
    MissingObjectError,
    ObjectExistsError,
    ObjectStore,
    StaleVersionError,
    StoreError,
)
from tests.support.tiering.stores import (
    NAMED,
    MakeStore,
    bucket_store,
    folder_store,
    memory_store,
    named_store,
    pieces,
)

KINDS = ["named"] if NAMED in os.environ else ["memory", "folder", "s3"]
Scenario = Callable[[BrowsableStore], Awaitable[None]]
MIB = 1 << 20


@pytest.fixture(params=KINDS)
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    if request.param == "named":
        return named_store
    if request.param == "memory":
        return memory_store
    if request.param == "folder":
        return folder_store(tmp_path)
    return bucket_store(request.getfixturevalue("s3"))


def run(make_store: MakeStore, scenario: Scenario) -> None:
    async def main() -> None:
        store = make_store()
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(main())


def test_created_objects_are_read_with_the_returned_version(make_store: MakeStore) -> None:
    async def scenario(store: ObjectStore) -> None:
        version = await store.create("a/b/manifest", b"first")
        assert await store.get("a/b/manifest") == (b"first", version)

    run(make_store, scenario)


def test_an_object_is_created_once(make_store: MakeStore) -> None:
    async def scenario(store: ObjectStore) -> None:
        await store.create("manifest", b"first")
        with pytest.raises(ObjectExistsError, match="manifest"):
            await store.create("manifest", b"second")
        assert (await store.get("manifest")).data == b"first"

    run(make_store, scenario)


def test_every_replacement_needs_and_gives_a_new_version(make_store: MakeStore) -> None:
    async def scenario(store: ObjectStore) -> None:
        versions = [await store.create("manifest", b"0")]
        for number in range(1, 4):
            versions.append(await store.replace("manifest", b"%d" % number, versions[-1]))
        assert len(set(versions)) == 4
        for old in versions[:-1]:
            with pytest.raises(StaleVersionError, match="manifest"):
                await store.replace("manifest", b"late", old)
        assert await store.get("manifest") == (b"3", versions[-1])

    run(make_store, scenario)


def test_a_removed_object_cannot_be_replaced(make_store: MakeStore) -> None:
    async def scenario(store: ObjectStore) -> None:
        version = await store.create("manifest", b"0")
        await store.delete("manifest")
        with pytest.raises(StaleVersionError):
            await store.replace("manifest", b"1", version)
        with pytest.raises(MissingObjectError, match="manifest"):
            await store.get("manifest")
        await store.create("manifest", b"2")

    run(make_store, scenario)


def test_of_concurrent_updates_in_a_loop_none_is_lost(make_store: MakeStore) -> None:
    async def count_up(store: ObjectStore) -> None:
        for _ in range(5):
            while True:
                number, version = await store.get("counter")
                try:
                    await store.replace("counter", b"%d" % (int(number) + 1), version)
                    break
                except StaleVersionError:
                    continue

    async def scenario(store: ObjectStore) -> None:
        await store.create("counter", b"0")
        await asyncio.gather(*(count_up(store) for _ in range(4)))
        assert (await store.get("counter")).data == b"20"

    run(make_store, scenario)


def test_a_put_makes_or_overwrites_and_changes_the_version(make_store: MakeStore) -> None:
    async def scenario(store: ObjectStore) -> None:
        await store.put("object", b"first")
        version = (await store.get("object")).version
        await store.put("object", b"second")
        with pytest.raises(StaleVersionError):
            await store.replace("object", b"third", version)
        assert (await store.get("object")).data == b"second"

    run(make_store, scenario)


def test_ranges_are_exact_and_short_ones_are_errors(make_store: MakeStore) -> None:
    async def scenario(store: ObjectStore) -> None:
        await store.put("object", bytes(range(100)))
        assert await store.get_range("object", 10, 20) == bytes(range(10, 20))
        assert await store.get_range("object", 0, 100) == bytes(range(100))
        assert await store.get_range("object", 7, 7) == b""
        for start, end in ((90, 101), (100, 101), (200, 300)):
            with pytest.raises(StoreError, match="object"):
                await store.get_range("object", start, end)
        with pytest.raises(MissingObjectError):
            await store.get_range("another", 0, 1)

    run(make_store, scenario)


def test_an_upload_of_many_pieces_is_one_object(make_store: MakeStore) -> None:
    some = [bytes([number]) * (5 * MIB + number) for number in range(7)]

    async def scenario(store: ObjectStore) -> None:
        await store.upload("a/large.segment", pieces(*some))
        size = sum(map(len, some))
        assert [(info.key, info.size) async for info in store.list("")] == [("a/large.segment", size)]
        start = len(some[0]) - 3
        assert await store.get_range("a/large.segment", start, start + 6) == b"\0\0\0\1\1\1"
        assert await store.get_range("a/large.segment", size - 2, size) == b"\6\6"

    run(make_store, scenario)


def test_an_upload_may_be_small_or_empty_or_repeated(make_store: MakeStore) -> None:
    async def scenario(store: ObjectStore) -> None:
        await store.upload("small", pieces(b"one", b"two"))
        await store.upload("small", pieces(b"one", b"two"))
        await store.upload("empty", pieces())
        assert (await store.get("small")).data == b"onetwo"
        assert (await store.get("empty")).data == b""

    run(make_store, scenario)


@pytest.mark.parametrize("size", [10, 20 * MIB])
def test_an_upload_whose_source_fails_leaves_nothing(make_store: MakeStore, size: int) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield bytes(size)
        raise FileNotFoundError("the segment is gone")

    async def scenario(store: ObjectStore) -> None:
        with pytest.raises(FileNotFoundError, match="the segment is gone"):
            await store.upload("object", broken())
        assert [info async for info in store.list("")] == []

    run(make_store, scenario)


def test_a_cancelled_upload_leaves_nothing(make_store: MakeStore) -> None:
    async def scenario(store: ObjectStore) -> None:
        waiting = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield bytes(20 * MIB)
            waiting.set()
            await asyncio.Event().wait()

        upload = asyncio.create_task(store.upload("object", endless()))
        await waiting.wait()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
        assert [info async for info in store.list("")] == []

    run(make_store, scenario)


def test_missing_objects_can_be_deleted(make_store: MakeStore) -> None:
    async def scenario(store: ObjectStore) -> None:
        await store.put("a/b/object", b"")
        for _ in range(2):
            await store.delete("a/b/object")
        await store.delete("never/was")
        assert [info async for info in store.list("")] == []

    run(make_store, scenario)


def test_a_list_is_in_the_order_of_keys(make_store: MakeStore) -> None:
    keys = ["a-b/1", "a/1", "a/2/x", "a/2-x", "a/3", "ab/1", "b"]

    async def scenario(store: ObjectStore) -> None:
        for key in reversed(keys):
            await store.put(key, key.encode())
        found = [info async for info in store.list("")]
        assert [(info.key, info.size) for info in found] == [(key, len(key)) for key in sorted(keys)]
        assert all(info.modified_ms > 1_600_000_000_000 for info in found)
        assert [info.key async for info in store.list("a/")] == ["a/1", "a/2-x", "a/2/x", "a/3"]
        assert [info.key async for info in store.list("a/", "a/2-x")] == ["a/2/x", "a/3"]
        assert [info.key async for info in store.list("a/", "a/2/a")] == ["a/2/x", "a/3"]
        assert [info.key async for info in store.list("", "a/3")] == ["ab/1", "b"]
        assert [info.key async for info in store.list("c/")] == []

    run(make_store, scenario)


def test_the_folders_below_a_prefix_are_named_once(make_store: MakeStore) -> None:
    async def scenario(store: BrowsableStore) -> None:
        for key in ("a/1/x/y", "a/1/z", "a/2/x", "a/3", "ab/1", "b"):
            await store.put(key, b"")
        assert await store.folders("") == ["a", "ab"]
        assert await store.folders("a/") == ["1", "2"]
        assert await store.folders("a/1/") == ["x"]
        assert await store.folders("c/") == []

    run(make_store, scenario)


def test_the_probe_finds_nothing_wrong_and_leaves_nothing(make_store: MakeStore) -> None:
    async def scenario(store: ObjectStore) -> None:
        await probe(store)
        assert [info async for info in store.list(FOLDER)] == []

    run(make_store, scenario)
