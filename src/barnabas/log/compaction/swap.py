"""Last step of a compaction, on the event loop: a new segment replaces old ones.

A crash may interrupt the steps anywhere; log/recovery/folder.py finishes or undoes them at the next start:

    1.  .cleaned -> .swap       the .log first: from then on the new segment is valid. If the disk is full, the
                                files are renamed back, the .log last
    2.  the old segments        -> .deleted, removed after file.delete.delay.ms
    3.  .swap -> no suffix      the .log first: leftover .swap indexes then belong to a finished segment
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.common.files import FileSystem
from barnabas.log import names
from barnabas.log.compaction.candidates import SourceSegment
from barnabas.log.failures import DISK_FULL
from barnabas.log.retention import retire
from barnabas.log.segments.segment import Segment

if TYPE_CHECKING:
    from barnabas.log.log import Log


def find_sources(log: Log, sources: list[SourceSegment]) -> list[Segment] | None:
    """Return the segments of a plan; None unless the log still has all of them, sealed and unchanged."""
    first = log.segments.number_of(sources[0].base_offset)
    segments = log.segments[first : first + len(sources)]
    same = [SourceSegment(segment.base_offset, segment.size) for segment in segments] == sources
    return segments if same and log.active not in segments else None


def swap_in(log: Log, old: list[Segment], size: int, now_ms: int) -> None:
    """Replace adjacent segments by the `.cleaned` one, which has `size` bytes.

    Raise DiskFull if the disk is full, with nothing changed; another KafkaError if the disk has failed.
    """
    with log.storage_errors():
        _make_valid(log, old[0].base_offset)
    with log.storage_errors(harmless=()):
        _replace(log, old, size, now_ms)


def _make_valid(log: Log, base_offset: int) -> None:
    try:
        _rename_all(log.fs, log.folder, base_offset, names.CLEANED, names.SWAP)
    except OSError:
        with log.storage_errors(harmless=()):  # left as .swap, recovery would finish the swap
            _rename_all(
                log.fs, log.folder, base_offset, names.SWAP, names.CLEANED, reversed(names.SEGMENT_SUFFIXES)
            )
        raise


def _replace(log: Log, old: list[Segment], size: int, now_ms: int) -> None:
    base_offset = old[0].base_offset
    for segment in old:
        retire(log, segment, now_ms)
    try:
        _rename_all(log.fs, log.folder, base_offset, names.SWAP, "")
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        _make_room(log)
        _rename_all(log.fs, log.folder, base_offset, names.SWAP, "")
    log.segments.insert(old[0].replacement(size))
    replaced = {segment.base_offset for segment in old[1:]}
    log.snapshots.keep_only(offset for offset in log.snapshots.offsets if offset not in replaced)


def _make_room(log: Log) -> None:
    """Delete `.deleted` files before their delay: the swap can no longer be undone, and the disk is full."""
    for _, path in log.take_garbage():
        log.fs.remove(path)


def _rename_all(
    fs: FileSystem,
    folder: str,
    base_offset: int,
    before: str,
    after: str,
    suffixes: Iterable[str] = names.SEGMENT_SUFFIXES,
) -> None:
    for suffix in suffixes:
        path = names.path_of(folder, base_offset, suffix)
        if fs.exists(path + before):
            fs.rename(path + before, path + after)


def remove_unfinished(fs: FileSystem, folder: str) -> None:
    """Remove the files of a compaction that ended without a swap."""
    try:
        present = fs.list(folder)
    except FileNotFoundError:
        return  # the partition was deleted meanwhile
    for name in present:
        if name.endswith(names.CLEANED):
            fs.remove(f"{folder}/{name}")
