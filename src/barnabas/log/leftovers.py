"""Files that an interrupted step left in a partition's folder, resolved before anything is read.

.tmp       a checkpoint or index that was not finished: the old one still stands
.deleted   removed from the log, waiting for file.delete.delay.ms
.cleaned   the cleaner had not finished it
.swap      the cleaner had finished it, and its sources were about to be removed: that is completed
"""

from __future__ import annotations

from barnabas.files import FileSystem
from barnabas.log import names
from barnabas.log.scan import SCAN_CHUNK, BadBatch, walk_headers

_DROPPED = (names.TEMPORARY, names.DELETED, names.CLEANED)


def resolve_leftovers(fs: FileSystem, folder: str) -> list[str]:
    """Bring the folder into one of its regular states; the names that are in it then."""
    present = fs.list(folder)
    dropped = [name for name in present if name.endswith(_DROPPED)]
    swaps = [name for name in present if name.endswith(names.SWAP)]
    if not dropped and not swaps:
        return present
    for name in dropped:
        fs.remove(f"{folder}/{name}")
    for name in swaps:
        if name.endswith(names.LOG + names.SWAP):
            _remove_replaced(fs, folder, name, present)
    for name in swaps:
        fs.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(names.SWAP)}")
    return fs.list(folder)


def _remove_replaced(fs: FileSystem, folder: str, swap: str, present: list[str]) -> None:
    """Remove the segments whose batches the finished one holds."""
    first = names.offset_in_name(swap)
    assert first is not None
    end = _next_offset(fs, f"{folder}/{swap}", first)
    for name in present:
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
