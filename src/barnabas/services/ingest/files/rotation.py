"""Decide whether a new file is the rotated version of a known one. Pure.

| known file | new file has the same head and | verdict |
|---|---|---|
| missing or truncated | matches the tail digest at the known offset | SAME: renamed, copied or compressed |
| | does not match | ANOTHER |
| exists, unchanged | is larger or differs | ANOTHER |
| | is equal to a prefix of it | HELD: possibly a copy in progress (copytruncate) |

A copy whose original is never truncated stays held: its lines are already in the topic.
"""

from __future__ import annotations

from enum import Enum, auto

from barnabas.services.ingest.files.contents import OpenFile, UnfinishedError
from barnabas.services.ingest.files.identity import TAIL_BYTES, FilePosition, begins_alike, continues


class RotationCheck(Enum):
    SAME = auto()
    HELD = auto()
    ANOTHER = auto()


def judge(newcomer: OpenFile, known: FilePosition, original: OpenFile | None) -> RotationCheck:
    """Compare a new file with a known one. `original` is the known file; None if it is missing or truncated."""
    try:
        if original is not None:
            return RotationCheck.HELD if _is_part_of(newcomer, known, original) else RotationCheck.ANOTHER
        alike = begins_alike(newcomer, known) and continues(newcomer, known)
        return RotationCheck.SAME if alike else RotationCheck.ANOTHER
    except UnfinishedError:
        return RotationCheck.HELD


def _is_part_of(newcomer: OpenFile, known: FilePosition, original: OpenFile) -> bool:
    if newcomer.compressed or original.compressed:
        return begins_alike(newcomer, known) and continues(newcomer, known)
    size = newcomer.size
    if size > original.size:
        return False
    length = min(size, TAIL_BYTES)
    return all(
        newcomer.read(offset, length) == original.read(offset, length) for offset in (0, size - length)
    )
