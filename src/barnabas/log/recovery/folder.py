"""Read a partition's folder at startup, after finishing or undoing interrupted operations in it."""

from __future__ import annotations

from barnabas.common.files import FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import CheckpointError, decode_epochs, read_if_exists
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.segments.scan import SCAN_CHUNK, BadBatch, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_file import OpenSegments

# -- Leftover files of interrupted operations, resolved before anything is read ------------------------

_DROPPED = (names.TEMPORARY, names.DELETED)
_FINISHED = names.LOG + names.SWAP


def resolve_unfinished(fs: FileSystem, folder: str) -> list[str]:
    """Finish or undo interrupted operations; return the names of the files that the folder has then."""
    present = fs.list(folder)
    unfinished = (*_DROPPED, names.CLEANED, names.SWAP)
    if not any(name.endswith(unfinished) for name in present):
        return present
    finished = {names.offset_in_name(name) for name in present if name.endswith(_FINISHED)}
    for name in present:
        if name.endswith(_DROPPED) or (
            name.endswith(names.CLEANED) and names.offset_in_name(name) not in finished
        ):
            fs.remove(f"{folder}/{name}")
    for offset in finished:
        if offset is not None:
            _finish_swap(fs, folder, offset)
    for name in fs.list(folder):
        if name.endswith(names.SWAP):  # indexes of a segment whose `.log` file is already renamed
            fs.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(names.SWAP)}")
    return fs.list(folder)


def _finish_swap(fs: FileSystem, folder: str, first: int) -> None:
    """Repeat the steps of log/compaction/swap.py, which are idempotent."""
    path = names.path_of(folder, first, "")
    for suffix in names.SEGMENT_SUFFIXES:
        if fs.exists(path + suffix + names.CLEANED):
            fs.rename(path + suffix + names.CLEANED, path + suffix + names.SWAP)
    _remove_replaced(fs, folder, first, _next_offset(fs, path + _FINISHED, first))
    for suffix in names.SEGMENT_SUFFIXES:
        if fs.exists(path + suffix + names.SWAP):
            fs.rename(path + suffix + names.SWAP, path + suffix)


def _remove_replaced(fs: FileSystem, folder: str, first: int, end: int) -> None:
    """Remove the segments that the compacted one replaces."""
    for name in fs.list(folder):
        offset = names.offset_in_name(name)
        if offset is not None and first <= offset < end and name.endswith(names.SEGMENT_SUFFIXES):
            fs.remove(f"{folder}/{name}")


def _next_offset(fs: FileSystem, path: str, first: int) -> int:
    file = fs.open(path)
    end = first + 1
    try:
        for _, header in walk_headers(file, 0, file.size, SCAN_CHUNK):
            end = header.next_offset
    except BadBatch:
        pass  # recovery of the segment handles the damage
    finally:
        file.close()
    return end


def offsets_of(present: list[str], suffix: str) -> list[int]:
    """Offsets in the names of all files with this suffix."""
    offsets = (names.offset_in_name(name) for name in present if name.endswith(suffix))
    return [offset for offset in offsets if offset is not None]


def find_segments(
    fs: FileSystem, folder: str, present: list[str], open_segments: OpenSegments, now_ms: int
) -> list[Segment]:
    segments = []
    for offset in sorted(offsets_of(present, names.LOG)):
        size = fs.size(names.path_of(folder, offset, names.LOG))
        segment = Segment(fs, folder, offset, open_segments, size)
        segment.created_ms = now_ms
        segments.append(segment)
    return segments


def remove_orphans(fs: FileSystem, folder: str, present: list[str], segments: list[Segment]) -> None:
    """Remove index files without a segment, left by an interrupted removal."""
    known = {segment.base_offset for segment in segments}
    for name in present:
        if name.endswith(names.SEGMENT_SUFFIXES) and names.offset_in_name(name) not in known:
            fs.remove(f"{folder}/{name}")


def read_epochs(fs: FileSystem, folder: str, present: list[str], segments: list[Segment]) -> LeaderEpochs:
    if names.LEADER_EPOCHS not in present:
        return LeaderEpochs()
    try:
        data = read_if_exists(fs, f"{folder}/{names.LEADER_EPOCHS}")
        return LeaderEpochs(decode_epochs(data or b""))
    except CheckpointError:
        return _epochs_from_batches(segments)


def _epochs_from_batches(segments: list[Segment]) -> LeaderEpochs:
    """Rebuild an unreadable checkpoint from the batch headers, which have the leader epoch."""
    epochs = LeaderEpochs()
    try:
        for segment in segments:
            for _, header in walk_headers(segment.file, 0, segment.size, SCAN_CHUNK):
                epochs.assign(header.leader_epoch, header.base_offset)
    except BadBatch:
        pass  # the recovery scan handles the damage
    epochs.dirty = True
    return epochs
