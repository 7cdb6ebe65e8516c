"""What has become of a file that is known, judged by another one that has appeared. Pure.

| the known file | the other one begins alike and | so it is |
|---|---|---|
| has vanished, or was truncated | continues where the known one ended | the same file, renamed, copied, compressed |
| | does not | another file |
| is there, unchanged | is larger, or differs somewhere | another file |
| | is a part of it so far | perhaps a copy that is being made: wait |

A copy that is never truncated stays held: its lines are in the topic already.
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
    """`original` is the known file; None if it has vanished or was truncated."""
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
