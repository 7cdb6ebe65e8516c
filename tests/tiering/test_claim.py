"""A claim fences earlier leaders, and compares the log with the copied segments."""

import asyncio

import pytest

from barnabas.tiering.objects.manifest import BadManifestError, Manifest, ManifestWriter, encode
from barnabas.tiering.objects.manifest_changes import add, mark_deleted, raise_log_start
from barnabas.tiering.objects.manifest_file import FencedError, change_manifest
from barnabas.tiering.stores.store import StoreUnavailableError
from barnabas.tiering.writing.claim import Claim, Decision, LogView, claim_manifest, divergence
from tests.support.builders.segments import FOLDER, NOW, entry, manifest_of
from tests.tiering.memory_store import Fault, MemoryStore
from tests.tiering.partition_world import manifest_in

NEXT = ManifestWriter(0, 6, "next")
Epochs = tuple[tuple[int, int], ...]


def store_with(manifest: Manifest) -> MemoryStore:
    store = MemoryStore()
    store.set_contents(FOLDER.manifest, encode(manifest))
    return store


def claimed(store: MemoryStore, log: LogView, writer: ManifestWriter = NEXT) -> Claim:
    return asyncio.run(claim_manifest(store, FOLDER, writer, log, NOW))


def view(end: int, epochs: Epochs = ((0, 0),), start: int = 0, local_start: int | None = None) -> LogView:
    return LogView(start, start if local_start is None else local_start, end, epochs)


def with_epochs(*parts: tuple[int, int, int]) -> Manifest:
    """(base, end, epoch) of each segment."""
    manifest = manifest_of(parts[0][0])
    for base, end, epoch in parts:
        manifest = add(manifest, entry(base, end, epoch))
    return manifest


def test_the_first_claim_makes_the_manifest() -> None:
    store = MemoryStore()
    claim = claimed(store, view(30, start=10))
    assert claim.decision is Decision.KEEP
    assert (claim.log_start, claim.file.manifest.tiered_end) == (10, 10)
    assert manifest_in(store).writer == "next"


def test_a_log_whose_records_are_only_in_the_store_needs_its_manifest() -> None:
    store = MemoryStore()
    with pytest.raises(BadManifestError, match="tier repair"):
        claimed(store, view(30, start=0, local_start=20))
    assert not store.keys


def test_a_damaged_manifest_is_not_overwritten() -> None:
    store = MemoryStore()
    store.set_contents(FOLDER.manifest, b'{"crc": 1, "body": {}}')
    with pytest.raises(BadManifestError):
        claimed(store, view(30))
    assert store.contents(FOLDER.manifest) == b'{"crc": 1, "body": {}}'


def test_earlier_epoch_cannot_claim_and_a_deleted_topic_rejects_all() -> None:
    store = store_with(manifest_of(0, 10))
    for writer in (
        ManifestWriter(0, 4, "old"),
        ManifestWriter(0, 5, "same epoch, another start"),
        ManifestWriter(-1, 9, "old cluster"),
    ):
        with pytest.raises(FencedError):
            claimed(store, view(30), writer)
    with pytest.raises(FencedError, match="deleted"):
        claimed(store_with(mark_deleted(manifest_of(0, 10))), view(30))


def test_restored_cluster_fences_the_old_one_regardless_of_epochs() -> None:
    store = store_with(manifest_of(0, 10))
    assert claimed(store, view(10), ManifestWriter(1, 0, "restored")).decision is Decision.KEEP
    with pytest.raises(FencedError):
        claimed(store, view(30), ManifestWriter(0, 99, "old cluster"))


def test_the_larger_log_start_counts() -> None:
    store = store_with(raise_log_start(manifest_of(0, 10, 20, 30), 12, NOW))
    assert claimed(store, view(40, start=5)).log_start == 12
    claim = claimed(store, view(40, start=25), ManifestWriter(0, 7, "later"))
    assert claim.log_start == 25
    assert [each.base for each in claim.file.manifest.garbage] == [0, 10]


def test_lagging_log_continues_at_the_tiered_end() -> None:
    store = store_with(manifest_of(0, 10, 20, 30))
    claim = claimed(store, view(17))
    assert (claim.decision, claim.start_at, claim.cut_at) == (Decision.START_AT, 30, None)


def test_empty_log_continues_at_the_tiered_end() -> None:
    claim = claimed(store_with(manifest_of(0, 10, 20)), view(0, epochs=()))
    assert (claim.decision, claim.start_at) == (Decision.START_AT, 20)


def test_segments_of_another_history_are_put_into_quarantine() -> None:
    """The segments have epoch 2 from 10 on; the unclean leader has lost that, and wrote epoch 3 from 15 on."""
    store = store_with(with_epochs((0, 10, 1), (10, 20, 2), (20, 30, 2)))
    claim = claimed(store, view(40, epochs=((1, 0), (2, 10), (3, 15))))
    assert (claim.decision, claim.cut_at) == (Decision.KEEP, 15)
    manifest = manifest_in(store)
    assert [(each.base, each.end) for each in manifest.entries] == [(0, 10), (10, 15)]
    assert [each.base for each in manifest.quarantine] == [20]
    assert not manifest.garbage


@pytest.mark.parametrize(
    ("remote", "local", "end", "found"),
    [
        (((0, 10, 1), (10, 20, 1)), ((1, 0),), 30, None),
        (((0, 10, 1), (10, 20, 2)), ((1, 0), (2, 10)), 15, None),
        (((0, 10, 1), (10, 20, 2)), ((1, 0), (3, 10)), 15, 10),
        (((0, 10, 1), (10, 20, 2)), ((1, 0),), 15, 10),
        (((0, 10, 1), (10, 20, 2)), ((1, 0), (3, 20)), 30, 10),
        (((0, 10, 1), (10, 20, 1)), ((3, 0),), 5, 0),
        (((0, 10, 1), (10, 20, 2)), ((2, 12),), 30, None),
        (((0, 10, 1),), ((1, 0), (2, 10)), 30, None),
    ],
)
def test_histories_are_the_same_as_long_as_their_epochs_are(
    remote: tuple[tuple[int, int, int], ...], local: Epochs, end: int, found: int | None
) -> None:
    assert divergence(with_epochs(*remote), view(end, epochs=local)) == found


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("existing", [False, True])
def test_a_claim_without_an_answer_is_repeated_and_counts_once(fault: Fault, existing: bool) -> None:
    for failing in range(1, 6):
        store = MemoryStore(lambda number, call, key, at=failing: fault if number == at else None)  # type: ignore[misc]
        if existing:
            store.set_contents(FOLDER.manifest, encode(manifest_of(0, 10)))
        for _ in range(3):
            try:
                claim = claimed(store, view(30))
                break
            except StoreUnavailableError:
                continue
        store.settle()
        assert claim.file.manifest == manifest_in(store)
        assert claim.file.manifest.leader_epoch == 6


def test_two_leaders_that_claim_at_once_are_fenced_in_the_order_of_their_epochs() -> None:
    async def race() -> None:
        store = MemoryStore()
        writers = [ManifestWriter(0, epoch, f"leader {epoch}") for epoch in (8, 6, 7)]
        claims = (claim_manifest(store, FOLDER, writer, view(30), NOW) for writer in writers)
        results = await asyncio.gather(*claims, return_exceptions=True)
        assert manifest_in(store).leader_epoch == 8
        assert all(isinstance(each, FencedError | Claim) for each in results)

        async def same(manifest: Manifest) -> Manifest:
            return raise_log_start(manifest, 1, NOW)

        for result in results[1:]:
            if isinstance(result, Claim):
                with pytest.raises(FencedError):
                    await result.file.change(same)

    asyncio.run(race())


def test_a_change_by_others_is_no_reason_to_stop() -> None:
    async def changes() -> None:
        store = store_with(manifest_of(0, 10))
        claim = await claim_manifest(store, FOLDER, NEXT, view(30), NOW)

        async def raised(manifest: Manifest) -> Manifest:
            return raise_log_start(manifest, 3, NOW)

        async def added(manifest: Manifest) -> Manifest:
            return add(manifest, entry(10, 20))

        await change_manifest(store, FOLDER, raised, lambda manifest: None)
        manifest = await claim.file.change(added)
        assert (manifest.log_start, manifest.tiered_end) == (3, 20)

    asyncio.run(changes())
