"""The manifest: content, and invariants of every change."""

from collections.abc import Iterable
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from barnabas.tiering.objects import manifest_changes
from barnabas.tiering.objects.layout import PartitionFolder, parse_object_name
from barnabas.tiering.objects.manifest import (
    BadManifestError,
    Manifest,
    ManifestPage,
    ManifestState,
    ManifestWriter,
    Removed,
    RemovedKind,
    SegmentEntry,
    decode,
    decode_page,
    encode,
    epochs_within,
)
from barnabas.tiering.objects.manifest_changes import (
    ImpossibleChangeError,
    add,
    claim,
    collect,
    cut,
    drop_quarantine,
    find_pin,
    mark_deleted,
    may_be_deleted,
    move_to_page,
    note_sweep,
    pin,
    pin_as,
    raise_log_start,
    unpin,
)
from tests.support.builders.segments import FOLDER, NOW, WRITER, entry, manifest_of

Pages = dict[str, tuple[SegmentEntry, ...]]


def keys(parts: Iterable[SegmentEntry | Removed | ManifestPage]) -> list[str]:
    return [part.key for part in parts]


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = pin(raise_log_start(manifest_of(0, 10, 20, 30), 12, NOW), "yesterday", NOW)
    assert decode(encode(manifest), FOLDER) == manifest


def test_an_entry_is_found_by_offset() -> None:
    manifest = manifest_of(5, 10, 20)
    assert manifest.entry_at(4) is None
    assert manifest.entry_at(5) == manifest.entry_at(9) == entry(5, 10)
    assert manifest.entry_at(10) == entry(10, 20)
    assert manifest.entry_at(20) is None
    assert manifest.tiered_end == 20


def test_every_damaged_byte_is_detected_and_the_message_has_a_remedy() -> None:
    data = encode(manifest_of(0, 10))
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 2
        with pytest.raises(BadManifestError, match="tier repair orders"):
            decode(bytes(damaged), FOLDER)
    for cut_off in (b"", data[:-1], b"[]", b"null"):
        with pytest.raises(BadManifestError):
            decode(cut_off, FOLDER)


def test_a_manifest_of_another_partition_is_refused() -> None:
    data = encode(manifest_of(0, 10))
    for other in (
        FOLDER._replace(cluster_id="other"),
        FOLDER._replace(topic_id=bytes(16)),
        FOLDER._replace(partition=1),
    ):
        with pytest.raises(BadManifestError, match="belongs to partition 0 of topic orders"):
            decode(data, PartitionFolder(*other))


def test_segments_follow_each_other_without_gap_or_overlap() -> None:
    manifest = manifest_of(0, 10)
    for base in (9, 11, 0):
        with pytest.raises(ImpossibleChangeError):
            add(manifest, entry(base, 20))
    assert add(manifest, entry(10, 20)).tiered_end == 20


def test_adding_twice_is_adding_once() -> None:
    manifest = manifest_of(0, 10, 20)
    assert add(manifest, entry(10, 20)) is manifest


def test_the_first_segment_holds_the_log_start() -> None:
    empty = manifest_of(15)
    assert empty.tiered_end == 15
    assert add(empty, entry(10, 20)).log_start == 15
    for outside in (entry(16, 20), entry(5, 15)):
        with pytest.raises(ImpossibleChangeError):
            add(empty, outside)


def test_a_later_epoch_claims_and_an_earlier_one_cannot() -> None:
    manifest = manifest_of(0, 10)
    claimed = claim(manifest, ManifestWriter(0, 6, "broker 2"))
    assert (claimed.leader_epoch, claimed.writer, claimed.version) == (6, "broker 2", manifest.version + 1)
    assert claim(claimed, ManifestWriter(0, 6, "broker 2")) is claimed
    for late in (WRITER, ManifestWriter(0, 6, "broker 3")):
        with pytest.raises(ImpossibleChangeError):
            claim(claimed, late)
    assert claim(claimed, ManifestWriter(1, 0, "restored")).incarnation == 1
    with pytest.raises(ImpossibleChangeError):
        claim(claim(claimed, ManifestWriter(1, 0, "restored")), ManifestWriter(0, 99, "old cluster"))


def test_segments_below_the_log_start_become_garbage() -> None:
    manifest = raise_log_start(manifest_of(0, 10, 20, 30), 25, NOW)
    assert [(each.base, each.end, each.since_ms) for each in manifest.garbage] == [
        (0, 10, NOW),
        (10, 20, NOW),
    ]
    assert (manifest.log_start, manifest.entries) == (25, (entry(20, 30),))
    assert raise_log_start(manifest, 24, NOW) is manifest


def test_a_log_start_behind_all_segments_leaves_none() -> None:
    manifest = raise_log_start(manifest_of(0, 10), 50, NOW)
    assert (manifest.entries, manifest.tiered_end) == ((), 50)
    assert add(manifest, entry(45, 60)).tiered_end == 60


def test_garbage_waits_for_older_pins_only() -> None:
    pinned = pin(manifest_of(0, 10, 20), "before", NOW)
    manifest = pin(raise_log_start(add(pinned, entry(20, 30)), 25, NOW), "after", NOW)
    first, second = manifest.garbage
    assert not may_be_deleted(manifest, first)
    manifest = raise_log_start(manifest, 30, NOW)
    third = manifest.garbage[-1]
    assert not may_be_deleted(manifest, third)  # `after` reads it
    assert may_be_deleted(unpin(manifest, "after"), third)  # `before` ended below it
    manifest = unpin(unpin(manifest, "before"), "after")
    assert all(may_be_deleted(manifest, each) for each in (first, second, third))
    assert collect(manifest, {first.key, second.key, third.key}).garbage == ()


def test_a_pin_is_made_once_and_copied_for_a_clone() -> None:
    manifest = pin(manifest_of(0, 10), "snapshot", NOW)
    assert pin(manifest, "snapshot", NOW + 1) is manifest
    later = raise_log_start(add(manifest, entry(10, 20)), 10, NOW)
    cloned = unpin(pin_as(later, "clone", "snapshot", NOW), "snapshot")
    copied = find_pin(cloned, "clone")
    assert copied is not None
    assert (copied.version, copied.start, copied.end) == (manifest.version - 1, 0, 10)
    assert not may_be_deleted(cloned, cloned.garbage[0])
    with pytest.raises(ImpossibleChangeError):
        pin_as(cloned, "another", "snapshot", NOW)


def test_a_cut_puts_segments_into_quarantine_and_shortens_the_one_that_is_cut() -> None:
    manifest = cut(manifest_of(0, 10, 20, 30), 15, NOW)
    assert [(each.base, each.end) for each in manifest.entries] == [(0, 10), (10, 15)]
    assert keys(manifest.quarantine) == [entry(20, 30).key]
    assert not manifest.garbage
    assert add(manifest, entry(15, 40, epoch=9)).tiered_end == 40
    assert cut(manifest, 15, NOW) is manifest
    assert keys(drop_quarantine(manifest, NOW).garbage) == [entry(20, 30).key]


def test_a_cut_below_the_log_start_leaves_no_segment() -> None:
    manifest = cut(raise_log_start(manifest_of(0, 10, 20), 15, NOW), 12, NOW)
    assert (manifest.entries, manifest.log_start) == ((), 15)
    assert keys(manifest.quarantine) == [entry(10, 20).key]


def test_old_entries_move_to_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.tiering.objects.manifest_changes.PAGE_ENTRIES", 3)
    before = manifest_of(*range(0, 60, 10))
    manifest, name, data = move_to_page(before, 5)
    parsed = parse_object_name(name)
    assert parsed is not None
    assert parsed[:2] == (50, 5)
    assert decode_page(data, name) == before.entries[:3]
    assert (manifest.pages[0].base, manifest.pages[0].end, len(manifest.entries)) == (0, 30, 2)
    assert manifest.page_at(29) == manifest.pages[0]
    assert manifest.page_at(30) is None
    assert (manifest.size, manifest.epochs, manifest.tiered_end) == (before.size, before.epochs, 50)
    with pytest.raises(BadManifestError, match="the page"):
        decode_page(data[:-1], "the page")


def test_a_page_expires_entry_by_entry_and_then_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.tiering.objects.manifest_changes.PAGE_ENTRIES", 3)
    manifest, name, data = move_to_page(manifest_of(*range(0, 60, 10)), 5)
    page = decode_page(data, name)
    with pytest.raises(ImpossibleChangeError, match="page"):
        raise_log_start(manifest, 12, NOW)
    manifest = raise_log_start(manifest, 12, NOW, page)
    assert keys(manifest.garbage) == [page[0].key]
    assert (manifest.size, manifest.pages[0].count) == (400, 2)
    manifest = raise_log_start(manifest, 23, NOW, page)
    assert keys(manifest.garbage) == [page[0].key, page[1].key]
    manifest = raise_log_start(manifest, 42, NOW)
    assert [(each.key, each.kind, each.base) for each in manifest.garbage[2:]] == [
        (name, RemovedKind.PAGE, 23),
        (entry(30, 40).key, RemovedKind.SEGMENT, 30),
    ]


def test_a_cut_in_a_page_lists_its_entries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.tiering.objects.manifest_changes.PAGE_ENTRIES", 3)
    manifest, name, data = move_to_page(manifest_of(*range(0, 60, 10)), 5)
    manifest = cut(manifest, 15, NOW, decode_page(data, name))
    assert [(each.base, each.end) for each in manifest.entries] == [(0, 10), (10, 15)]
    assert not manifest.pages
    assert [(each.key, each.kind) for each in manifest.garbage] == [(name, RemovedKind.LIST)]
    assert [each.base for each in manifest.quarantine] == [20, 30, 40]


def test_the_sweep_mark_only_rises_and_a_deleted_manifest_stays_deleted() -> None:
    manifest = note_sweep(manifest_of(0, 10), 10)
    assert note_sweep(manifest, 5) is manifest
    deleted = mark_deleted(manifest)
    assert deleted.state is ManifestState.DELETED
    assert mark_deleted(deleted) is deleted


def test_epochs_of_a_part_are_those_its_records_have() -> None:
    epochs = ((1, 0), (3, 10), (4, 20))
    assert epochs_within(epochs, 12, 20) == ((3, 10),)
    assert epochs_within(epochs, 0, 11) == ((1, 0), (3, 10))
    assert epochs_within(epochs, 20, 30) == ((4, 20),)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["add", "raise", "cut", "page"]), st.integers(0, 120)), max_size=25)
)
def test_every_offset_is_listed_once_with_any_changes(changes: list[tuple[str, int]]) -> None:
    with patch.object(manifest_changes, "PAGE_ENTRIES", 3):
        manifest, pages, ever = changed(changes)
    assert named(manifest, pages) == ever


def changed(changes: list[tuple[str, int]]) -> tuple[Manifest, Pages, set[str]]:
    """The manifest, its pages, and the names of all segments that there ever were."""
    manifest = manifest_of(0)
    pages: Pages = {}
    ever: set[str] = set()
    for change, number in changes:
        offset = min(number, manifest.tiered_end)
        page = manifest.page_at(offset)
        loaded = pages[page.key] if page else None
        if change == "add":
            end = manifest.tiered_end + 1 + number % 10
            manifest = add(manifest, entry(manifest.tiered_end, end, epoch=manifest.version))
            ever.add(manifest.entries[-1].key)
        elif change == "raise":
            manifest = raise_log_start(manifest, offset, NOW, loaded)
        elif change == "cut" and offset < manifest.tiered_end:
            manifest = cut(manifest, offset, NOW, loaded)
        elif change == "page" and len(manifest.entries) > 1:
            manifest, name, data = move_to_page(manifest, manifest.version)
            pages[name] = decode_page(data, name)
        assert decode(encode(manifest), FOLDER) == manifest
    return manifest, pages, ever


def named(manifest: Manifest, pages: Pages) -> set[str]:
    """Keys of all reachable segments, each in exactly one place."""
    found = [each.key for each in manifest.entries]
    for page in manifest.pages:
        found += [each.key for each in pages[page.key] if each.end > manifest.log_start]
    for removed in (*manifest.garbage, *manifest.quarantine):
        if removed.kind is RemovedKind.SEGMENT:
            found.append(removed.key)
        elif removed.kind is RemovedKind.PAGE:
            found += [each.key for each in pages[removed.key] if each.end > removed.base]
    assert len(found) == len(set(found))
    return set(found)


def test_a_manifest_of_a_later_barnabas_is_not_called_damaged() -> None:
    later = replace(manifest_of(0, 10), format=2)
    with pytest.raises(BadManifestError, match="written by a newer version"):
        decode(encode(later), FOLDER)
