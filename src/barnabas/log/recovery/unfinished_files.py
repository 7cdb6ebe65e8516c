"""Files that an interrupted step left in a partition's folder, resolved before anything is read.

.tmp       a checkpoint or index that was not finished: the old one still stands
.deleted   removed from the log, waiting for file.delete.delay.ms
.cleaned   the cleaner had not finished the segment
.swap      the cleaner had finished it, and it was about to replace its sources: that is completed

A cleaned segment counts as finished once its `.log` is called `.log.swap` (log/compaction/swap.py); what is
still called `.cleaned` beside it, or already has no suffix, belongs to it too.
"""

from __future__ import annotations

from barnabas.common.files import FileSystem
from barnabas.log import names
from barnabas.log.segments.scan import SCAN_CHUNK, BadBatch, walk_headers

_DROPPED = (names.TEMPORARY, names.DELETED)
_FINISHED = names.LOG + names.SWAP


def resolve_unfinished(fs: FileSystem, folder: str) -> list[str]:
    """Bring the folder into one of its regular states; the names that are in it then."""
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
        if name.endswith(names.SWAP):  # the indexes of a segment whose own file was in place already
            fs.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(names.SWAP)}")
    return fs.list(folder)


def _finish_swap(fs: FileSystem, folder: str, first: int) -> None:
    """Go through the steps of log/compaction/swap.py again; those that were done find nothing to do."""
    path = names.path_of(folder, first, "")
    for suffix in names.SEGMENT_SUFFIXES:
        if fs.exists(path + suffix + names.CLEANED):
            fs.rename(path + suffix + names.CLEANED, path + suffix + names.SWAP)
    _remove_replaced(fs, folder, first, _next_offset(fs, path + _FINISHED, first))
    for suffix in names.SEGMENT_SUFFIXES:
        if fs.exists(path + suffix + names.SWAP):
            fs.rename(path + suffix + names.SWAP, path + suffix)


def _remove_replaced(fs: FileSystem, folder: str, first: int, end: int) -> None:
    """Remove the segments whose batches the finished one holds."""
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
        pass  # what follows is decided when the segment itself is recovered
    finally:
        file.close()
    return end
