"""Injected bugs, each of which the exactly-once tests detect."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from barnabas.tiering.objects import manifest_changes, manifest_file
from barnabas.tiering.objects.layout import PartitionFolder, parse_object_name
from barnabas.tiering.objects.manifest import SegmentEntry, encode
from barnabas.tiering.objects.manifest_file import ManifestFile, read_manifest
from barnabas.tiering.stores.store import ObjectInfo, StoreError
from barnabas.tiering.writing import claim, copier, expiration
from barnabas.tiering.writing import expiration as sweep
from barnabas.tiering.writing.copier import SegmentCopier
from barnabas.tiering.writing.pacing import Step
from tests.tiering import partition_world
from tests.tiering.memory_store import Fault, MemoryStore
from tests.tiering.partition_world import At, dying_at, unlisted
from tests.tiering.test_exactly_once import calls_of_a_life, death_at_a_call, two_lives, zombie_and_leader


@contextmanager
def nobody_claims() -> Iterator[None]:
    """A leader writes with its epoch in its names only: the one before it is not fenced."""
    with (
        patch.object(claim, "claim", lambda manifest, writer: manifest),
        patch.object(claim, "_check_fence", lambda *arguments: None),
        patch.object(manifest_file, "check_writer", lambda *arguments: None),
    ):
        yield


@contextmanager
def objects_are_deleted_before_the_manifest_says_so() -> Iterator[None]:
    real = expiration.expire

    async def delete_first(store: MemoryStore, file: ManifestFile, log_start: int, *arguments: Any) -> Any:
        removed = [entry for entry in file.manifest.entries if entry.end <= log_start]
        await expiration.delete_all(store, [file.folder.key(entry.key) for entry in removed])
        return await real(store, file, log_start, *arguments)

    with patch.object(partition_world, "expire", delete_first):
        yield


@contextmanager
def local_segments_are_removed_before_the_answer() -> Iterator[None]:
    """Local retention before U5: uploaded counts as copied."""
    upload = SegmentCopier._upload

    async def too_early(self: SegmentCopier, planned: Any) -> SegmentEntry:
        entry = await upload(self, planned)
        self._log.note_tiered_end(entry.end)
        return entry

    with patch.object(SegmentCopier, "_upload", too_early):
        yield


@contextmanager
def a_sweep_takes_whatever_is_not_listed() -> Iterator[None]:
    """Epochs are ignored: a zombie deletes its successor's uploads, and a leader its own."""

    async def whatever_is_not_listed(
        store: MemoryStore, file: ManifestFile, start: int
    ) -> AsyncIterator[ObjectInfo]:
        named = sweep._Named(store, file.folder.prefix, file.manifest)
        async for info in store.list(file.folder.prefix):
            name = parse_object_name(info.key.removeprefix(file.folder.prefix))
            if name is not None and not await named.has(name):
                yield info

    with patch.object(sweep, "find_orphans", whatever_is_not_listed):
        yield


@contextmanager
def every_attempt_takes_a_new_name() -> Iterator[None]:
    choose = SegmentCopier._choose

    async def forget_first(self: SegmentCopier) -> Any:
        self._planned = None
        return await choose(self)

    with patch.object(SegmentCopier, "_choose", forget_first):
        yield


@contextmanager
def an_unanswered_cas_counts_as_refused() -> Iterator[None]:
    """The manifest is not read again: a listed object is taken for an orphan."""

    async def do_not_look(
        store: MemoryStore,
        folder: PartitionFolder,
        change: Any,
        check: Any,
        seen: manifest_file.ManifestVersion | None = None,
    ) -> manifest_file.ManifestVersion:
        seen = seen or await read_manifest(store, folder)
        assert seen is not None
        check(seen.manifest)
        wanted = await change(seen.manifest)
        data = encode(wanted)
        return manifest_file.ManifestVersion(
            wanted, data, await store.replace(folder.manifest, data, seen.version)
        )

    remove = SegmentCopier._list

    async def list_or_remove(self: SegmentCopier, entry: SegmentEntry) -> None:
        try:
            await remove(self, entry)
        except StoreError:
            await self._store.delete(self._file.folder.key(entry.key))
            raise

    with (
        patch.object(manifest_file, "change_manifest", do_not_look),
        patch.object(copier.SegmentCopier, "_list", list_or_remove),
    ):
        yield


MUTANTS = [
    nobody_claims,
    objects_are_deleted_before_the_manifest_says_so,
    local_segments_are_removed_before_the_answer,
    a_sweep_takes_whatever_is_not_listed,
    every_attempt_takes_a_new_name,
    an_unanswered_cas_counts_as_refused,
]


def scenarios() -> Iterator[Coroutine[Any, Any, None]]:
    """Of the tests of copying exactly once."""
    for step in Step:
        yield two_lives_and_nothing_left(MemoryStore(), dying_at(step, 2))
    for number in range(calls_of_a_life(), 0, -1):
        yield zombie_and_leader(number, False)
        yield zombie_and_leader(number, True)
        yield death_at_a_call(number, Fault.BEFORE)
        for fault in Fault:
            store = MemoryStore(lambda call, _, __, at=number, fault=fault: fault if call == at else None)  # type: ignore[misc]
            yield two_lives_and_nothing_left(store, lambda step: None)


async def two_lives_and_nothing_left(store: MemoryStore, at: At) -> None:
    await two_lives(store, at)
    assert unlisted(store) == set()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bug_is_noticed(
    mutant: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_changes, "MAX_ENTRIES", 4)
    monkeypatch.setattr(manifest_changes, "PAGE_ENTRIES", 2)
    planned = list(scenarios())
    try:
        with mutant():
            noticed = next((scenario for scenario in planned if fails(scenario)), None)
        assert noticed is not None
    finally:
        for scenario in planned:
            scenario.close()


def fails(scenario: Coroutine[Any, Any, object]) -> bool:
    try:
        asyncio.run(scenario)
    except Exception:
        return True
    return False
