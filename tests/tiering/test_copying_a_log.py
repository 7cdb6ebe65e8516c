"""A real log on a real disk, copied to a folder by two leaders with different segment boundaries."""

import asyncio
from dataclasses import replace
from pathlib import Path

from barnabas.common.files import FileSlice
from barnabas.log.log import Log
from barnabas.log.segments.aborted_index import decode_aborted
from barnabas.log.tiering.copying import SealedSegment
from barnabas.records.batch import iterate_headers
from barnabas.tiering.objects.manifest import Manifest, ManifestWriter, entry_key
from barnabas.tiering.objects.segment_object import ABORTED, read_chunk, read_footer, read_section
from barnabas.tiering.repair import rebuild, verify
from barnabas.tiering.stores.opening import FolderStore
from barnabas.tiering.stores.store import ObjectStore
from barnabas.tiering.writing.claim import Claim, LogView
from barnabas.tiering.writing.claim import claim_manifest as claim
from barnabas.tiering.writing.copier import SegmentCopier
from barnabas.tiering.writing.pacing import UploadLimiter
from tests.support.builders.logs import NOW, append, batch, end_transaction, marker, new_log, produced
from tests.support.builders.segments import FOLDER, in_thread
from tests.support.builders.tiered_logs import TIERED


class CopiedLog:
    """A broker's adapter of a log for its copier."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def view(self) -> LogView:
        log = self.log
        return LogView(log.log_start_offset, log.offsets.local_start, log.log_end_offset, log.epochs.entries)

    async def next_sealed(self, start: int) -> SealedSegment | None:
        chosen = self.log.next_to_copy(NOW)
        if chosen is None:
            return None
        assert chosen.base == start
        return await asyncio.to_thread(chosen.read)

    def note_tiered_end(self, offset: int) -> None:
        self.log.note_tiered(offset)


def filled(folder: Path, segment_bytes: int) -> Log:
    log = new_log(folder, replace(TIERED, segment_bytes=segment_bytes))
    for number in range(120):
        append(log, batch(b"x" * 700, timestamp=NOW + number))
        append(log, produced(7, 0, number, b"y" * 50, transactional=True, timestamp=NOW + number))
        if number % 10 == 9:
            end_transaction(log, marker(7, 0, committed=number % 20 == 9))
    log.flush()
    return log


async def copied(store: ObjectStore, log: Log, epoch: int, segments: int) -> Claim:
    source = CopiedLog(log)
    claimed = await claim(store, FOLDER, ManifestWriter(0, epoch, f"leader {epoch}"), source.view(), NOW)
    copier = SegmentCopier(store, claimed.file, source, UploadLimiter(lambda: 0.0, 1e15), in_thread)
    copier.note_tiered_end()
    for _ in range(segments):
        assert await copier.copy_next() is not None
    return claimed


async def remote_bytes(store: ObjectStore, manifest: Manifest) -> bytes:
    data = b""
    for entry in manifest.entries:
        key = entry_key(FOLDER, entry)
        footer = await read_footer(store, key, entry)
        for number in range(len(footer.chunks)):
            data += await read_chunk(store, key, footer, number)
    return data


def local_bytes(log: Log, end: int) -> bytes:
    data = b""
    while True:
        position = iterate_end(data)
        if position >= end:
            return data
        read = log.read(position, 1 << 20, end)
        assert isinstance(read, FileSlice)
        data += read.read()


def iterate_end(data: bytes) -> int:
    return max((header.next_offset for _, header in iterate_headers(data)), default=0)


def test_segments_copied_by_two_leaders_equal_the_log_byte_for_byte(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "store").mkdir()
        store = FolderStore(str(tmp_path / "store"))
        first, second = filled(tmp_path / "a", 20_000), filled(tmp_path / "b", 9_000)
        await copied(store, first, 1, 2)
        claimed = await copied(store, second, 2, 4)
        manifest = claimed.file.manifest
        assert len(manifest.entries) == 6
        assert await remote_bytes(store, manifest) == local_bytes(second, manifest.tiered_end)
        assert [each async for each in verify(store, FOLDER, manifest) if each.problem] == []
        assert (await rebuild(store, FOLDER, 0, NOW)).manifest.entries == manifest.entries
        await check_transactions(store, manifest, second)
        await store.close()

    asyncio.run(scenario())


async def check_transactions(store: ObjectStore, manifest: Manifest, log: Log) -> None:
    """All aborted transactions that touch a segment are in it, wherever they end."""
    complete = [each for segment in log.segments for each in segment.aborted]
    for entry in manifest.entries:
        key = entry_key(FOLDER, entry)
        footer = await read_footer(store, key, entry)
        found = decode_aborted(await read_section(store, key, footer, ABORTED))
        assert {each.first_offset for each in found} == {
            each.first_offset
            for each in complete
            if each.last_offset >= entry.base and each.first_offset < entry.end
        }
