"""The end of a compaction, on the loop: a new segment takes the place of some old ones.

The steps, in an order that a crash may interrupt anywhere (log/leftovers.py finishes what was begun):

    1.  .cleaned -> .swap       the .log first: from then on the new segment is valid, before it is not
    2.  the old segments        -> .deleted, which are removed after file.delete.delay.ms
    3.  .swap -> no suffix      the .log first, so that no index without its .log.swap is taken for an unfinished one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.files import FileSystem
from barnabas.log import names
from barnabas.log.compaction.plan import Source
from barnabas.log.retention import retire
from barnabas.log.segment import Segment

if TYPE_CHECKING:
    from barnabas.log.log import Log


def find_sources(log: Log, sources: list[Source]) -> list[Segment] | None:
    """The segments that a plan speaks of, if the log still has them all, sealed and unchanged."""
    first = log.segment_number(sources[0].base_offset)
    found = log.segments[first : first + len(sources)]
    same = [Source(segment.base_offset, segment.size) for segment in found] == sources
    return found if same and log.active not in found else None


def swap_in(log: Log, old: list[Segment], size: int, now_ms: int) -> None:
    """Replace neighbouring segments by the `.cleaned` one, which has `size` bytes; KafkaError when the disk fails."""
    with log.disk(harmless=()):
        _swap_in(log, old, size, now_ms)


def _swap_in(log: Log, old: list[Segment], size: int, now_ms: int) -> None:
    base_offset = old[0].base_offset
    place = log.segments.index(old[0])
    _rename_all(log.fs, log.folder, base_offset, names.CLEANED, names.SWAP)
    for segment in old:
        retire(log, segment, now_ms)
    _rename_all(log.fs, log.folder, base_offset, names.SWAP, "")
    log.segments.insert(place, old[0].replacement(size))
    log.size_bytes += size
    gone = {segment.base_offset for segment in old[1:]}
    log.snapshots.keep_only(offset for offset in log.snapshots.offsets if offset not in gone)


def _rename_all(fs: FileSystem, folder: str, base_offset: int, before: str, after: str) -> None:
    for suffix in names.SEGMENT_SUFFIXES:
        path = names.path_of(folder, base_offset, suffix)
        if fs.exists(path + before):
            fs.rename(path + before, path + after)


def remove_unfinished(fs: FileSystem, folder: str) -> None:
    """Remove what a compaction left behind that is over and was not swapped in."""
    try:
        present = fs.list(folder)
    except FileNotFoundError:
        return  # the partition was deleted meanwhile
    for name in present:
        if name.endswith(names.CLEANED):
            fs.remove(f"{folder}/{name}")
