"""Remove damaged bytes from a partition's files, on request, for a log that the broker refuses to serve.

Intact batches before and after the damage keep their offsets, so consumers see a gap like that of compaction. The
removed bytes are kept in a folder `damaged` next to the segments.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from barnabas.common.files import File, FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    decode_offsets,
    encode_offsets,
    read_if_exists,
)
from barnabas.log.recovery.verification import Damage, recovery_point, segment_offsets, sound_batches

KEPT_FOLDER = "damaged"
COPY_CHUNK = 1 << 20


class Lost(NamedTuple):
    """A removed range. Offsets [first, next) may be missing; all from `first` on if `next` is None."""

    damage: Damage
    first: int
    next: int | None


def repair_partition(fs: FileSystem, folder: str) -> list[Lost]:
    """Repair the partition and return the removed ranges. The caller holds the lock of the log dir."""
    lost: list[Lost] = []
    next_offset = 0
    for base_offset in segment_offsets(fs, folder):
        next_offset = max(next_offset, base_offset)
        ranges, next_offset = _examine(fs, folder, base_offset, next_offset)
        if ranges:
            _cut_out(fs, folder, base_offset, [each.damage for each in ranges])
            lost += ranges
    if lost:
        _forget_producers(fs, folder, lost[0].first)
        fs.sync_folder(folder)
    if next_offset < (expected := recovery_point(fs, folder)):
        if not lost or lost[-1].next is not None:
            lost.append(Lost(Damage(folder, 0, 0, "the end of the log is missing"), next_offset, expected))
        _lower_checkpoints(fs, folder, next_offset)
    return lost


def _lower_checkpoints(fs: FileSystem, folder: str, end: int) -> None:
    """Lower the checkpoints to the new log end offset, or the broker would report missing records."""
    tp = names.partition_of_folder(os.path.basename(folder))
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        path = f"{os.path.dirname(folder)}/{name}"
        offsets = decode_offsets(read_if_exists(fs, path) or encode_offsets({}))
        if tp is not None and offsets.get(tp, 0) > end:
            fs.write_atomic(path, encode_offsets({**offsets, tp: end}))


def _examine(fs: FileSystem, folder: str, base_offset: int, next_offset: int) -> tuple[list[Lost], int]:
    lost: list[Lost] = []
    file = fs.open(names.path_of(folder, base_offset, names.LOG))
    try:
        for item in sound_batches(file, base_offset, next_offset):
            if isinstance(item, Damage):
                lost.append(Lost(item, next_offset, None))
                continue
            _, header = item
            if lost and lost[-1].next is None:
                lost[-1] = lost[-1]._replace(next=header.base_offset)
            next_offset = header.next_offset
    finally:
        file.close()
    return lost, next_offset


def _cut_out(fs: FileSystem, folder: str, base_offset: int, damage: list[Damage]) -> None:
    """Rewrite the segment without the damaged bytes; remove its indexes, which the broker rebuilds."""
    path = names.path_of(folder, base_offset, names.LOG)
    fs.make_folders(f"{folder}/{KEPT_FOLDER}")
    source = fs.open(path)
    try:
        for each in damage:
            kept = fs.open(f"{folder}/{KEPT_FOLDER}/{base_offset:020d}.{each.position}.bytes", create=True)
            _replace_contents(kept, source, [(each.position, each.end)])
        repaired = fs.open(path + names.TEMPORARY, create=True)
        _replace_contents(repaired, source, _intact_ranges(damage, source.size))
    finally:
        source.close()
    for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX):
        _remove_if_exists(fs, names.path_of(folder, base_offset, suffix))
    fs.rename(path + names.TEMPORARY, path)


def _intact_ranges(damage: list[Damage], size: int) -> list[tuple[int, int]]:
    """Byte ranges around the damage."""
    ends = [0, *(each.end for each in damage)]
    starts = [*(each.position for each in damage), size]
    return [(start, end) for start, end in zip(ends, starts, strict=True) if start < end]


def _replace_contents(target: File, source: File, ranges: list[tuple[int, int]]) -> None:
    target.truncate(0)
    for start, end in ranges:
        for position in range(start, end, COPY_CHUNK):
            target.append(source.read(min(COPY_CHUNK, end - position), position))
    target.sync()
    target.close()


def _forget_producers(fs: FileSystem, folder: str, first_lost: int) -> None:
    """Remove snapshots that may refer to removed batches; the broker rebuilds them from the log."""
    for name in fs.list(folder):
        offset = names.offset_in_name(name)
        if name.endswith(names.PRODUCER_SNAPSHOT) and offset is not None and offset > first_lost:
            fs.remove(f"{folder}/{name}")


def _remove_if_exists(fs: FileSystem, path: str) -> None:
    if fs.exists(path):
        fs.remove(path)
