"""A real compacted log on a real disk: its copy in a folder is a consistent snapshot, byte for byte."""

import asyncio
from dataclasses import replace
from pathlib import Path

from barnabas.broker.tiering.leader_log import CompactedLeaderLog
from barnabas.common.clock import SystemClock
from barnabas.log.log import Log
from barnabas.log.tiering.copying import stays_whole, still_exists, to_copy, whole_parts
from barnabas.tiering.objects.manifest import Manifest, ManifestWriter
from barnabas.tiering.repair import verify
from barnabas.tiering.stores.opening import FolderStore
from barnabas.tiering.stores.store import ObjectStore
from barnabas.tiering.writing.claim import LogView, claim_manifest
from barnabas.tiering.writing.compacted_copier import CompactedLogCopier
from barnabas.tiering.writing.pacing import UploadLimiter
from tests.support.builders.compacted_logs import COMPACTED, clean, put
from tests.support.builders.logs import NOW, end_transaction, marker, new_log, produced
from tests.support.builders.logs import append as append_batch
from tests.support.builders.segments import FOLDER, in_thread
from tests.tiering.test_copying_a_log import remote_bytes

COPIED = replace(COMPACTED, remote_storage_enable=True)


class Led(CompactedLeaderLog):
    """Without a partition."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._in_thread = in_thread
        self._clock = SystemClock()


def filled(folder: Path) -> Log:
    log = new_log(folder, COPIED)
    for number in range(200):
        put(log, (b"%d" % (number % 20), b"x" * 80), timestamp=NOW + number)
        append_batch(log, produced(7, 0, number, b"y" * 40, transactional=True, timestamp=NOW + number))
        if number % 10 == 9:
            end_transaction(log, marker(7, 0, committed=number % 20 == 9))
    log.flush()
    return log


async def copier_of(store: ObjectStore, log: Log, epoch: int = 1) -> CompactedLogCopier:
    view = LogView(0, 0, 0, log.epochs.entries)
    claim = await claim_manifest(
        store,
        FOLDER,
        ManifestWriter(0, epoch, "leader"),
        view._replace(end=log.log_end_offset),
        NOW,
        compacted=True,
    )
    return CompactedLogCopier(
        store, claim.file, Led(log), UploadLimiter(lambda: 0.0, 1e15), in_thread, lambda: NOW, 0
    )


async def copied(store: ObjectStore, log: Log, epoch: int = 1) -> tuple[Manifest, int]:
    copier = await copier_of(store, log, epoch)
    count = 0
    while await copier.copy_next():
        count += 1
    return copier._file.manifest, count


def local_bytes(log: Log) -> bytes:
    return b"".join(part.segment.file.read(part.segment.size, 0) for part in whole_parts(log))


def test_the_copy_is_the_log_before_and_after_a_compaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "store").mkdir()
        store = FolderStore(str(tmp_path / "store"))
        log = filled(tmp_path / "log")
        assert stays_whole(log)
        copier = await copier_of(store, log)
        while await copier.copy_next():
            pass
        before = copier._file.manifest
        assert await remote_bytes(store, before) == local_bytes(log)
        assert copier.pending_sizes() == []
        clean(log)
        assert copier.pending_sizes()
        while await copier.copy_next():
            pass
        after = copier._file.manifest
        assert after.size < before.size
        assert after.tiered_end == before.tiered_end
        assert await remote_bytes(store, after) == local_bytes(log)
        assert {each.key for each in after.garbage} == {each.key for each in before.entries}
        assert [each async for each in verify(store, FOLDER, after) if each.problem] == []
        _, count = await copied(store, log, epoch=2)
        assert count == 0, "another leader with the same bytes copies nothing"
        await store.close()

    asyncio.run(scenario())


def test_a_segment_of_which_nothing_is_left_is_covered_by_its_neighbour(tmp_path: Path) -> None:
    log = filled(tmp_path)
    segments = log.segments
    bounds = [segment.base_offset for segment in segments]
    for number in (0, 3):
        segments[number].size = 0
    parts = whole_parts(log)
    assert parts[0].base == bounds[0]
    assert parts[0].segment is segments[1]
    assert next(part for part in parts if part.segment is segments[2]).end == bounds[4]
    assert [part.end for part in parts[:-1]] == [part.base for part in parts[1:]]


def test_reads_concurrent_with_a_compaction_are_discarded(tmp_path: Path) -> None:
    log = filled(tmp_path)
    part = whole_parts(log)[0]
    chosen = to_copy(log, part)
    assert chosen is not None
    chosen.read()
    assert still_exists(log, chosen)
    clean(log)
    assert not still_exists(log, chosen)
    assert to_copy(log, part) is None


def test_segments_that_are_not_committed_or_not_on_the_disk_are_left_out(tmp_path: Path) -> None:
    log = filled(tmp_path)
    complete = whole_parts(log)
    log.offsets.recovery_point = complete[2].end - 1
    assert whole_parts(log) == complete[:2]


def test_a_log_that_has_left_the_disk_in_part_is_not_copied_as_a_whole(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.note_tiered(whole_parts(log)[0].end)
    assert not stays_whole(log)
