"""Cutting damage out of a partition's files: the explicit way out for a log that a broker refuses to serve.

Only what is damaged goes; sound batches before and after it stay and keep their offsets, so that consumers see a
gap, as compaction leaves one. What was cut out is kept in a folder `damaged` beside the segments.
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
    read_if_there,
)
from barnabas.log.recovery.verification import Damage, recovery_point, segment_offsets, sound_batches

KEPT_FOLDER = "damaged"
COPY_CHUNK = 1 << 20


class Lost(NamedTuple):
    """One place that was cut out. Offsets [first, next) may be missing now; `next` None: everything after."""

    damage: Damage
    first: int
    next: int | None


def repair_partition(fs: FileSystem, folder: str) -> list[Lost]:
    """What had to go. Nothing else may work in the folder meanwhile (hold the lock of its log dir)."""
    lost: list[Lost] = []
    next_offset = 0
    for base_offset in segment_offsets(fs, folder):
        next_offset = max(next_offset, base_offset)
        found, next_offset = _examine(fs, folder, base_offset, next_offset)
        if found:
            _cut_out(fs, folder, base_offset, [one.damage for one in found])
            lost += found
    if lost:
        _forget_producers(fs, folder, lost[0].first)
        fs.sync_folder(folder)
    if next_offset < (expected := recovery_point(fs, folder)):
        if not lost or lost[-1].next is not None:
            lost.append(Lost(Damage(folder, 0, 0, "its end is missing"), next_offset, expected))
        _lower_checkpoints(fs, folder, next_offset)
    return lost


def _lower_checkpoints(fs: FileSystem, folder: str, end: int) -> None:
    """The broker must no longer expect what is not there."""
    place = names.partition_of_folder(os.path.basename(folder))
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        path = f"{os.path.dirname(folder)}/{name}"
        noted = decode_offsets(read_if_there(fs, path) or encode_offsets({}))
        if place is not None and noted.get(place, 0) > end:
            fs.write_atomic(path, encode_offsets({**noted, place: end}))


def _examine(fs: FileSystem, folder: str, base_offset: int, next_offset: int) -> tuple[list[Lost], int]:
    lost: list[Lost] = []
    file = fs.open(names.path_of(folder, base_offset, names.LOG))
    try:
        for found in sound_batches(file, base_offset, next_offset):
            if isinstance(found, Damage):
                lost.append(Lost(found, next_offset, None))
                continue
            _, header = found
            if lost and lost[-1].next is None:
                lost[-1] = lost[-1]._replace(next=header.base_offset)
            next_offset = header.next_offset
    finally:
        file.close()
    return lost, next_offset


def _cut_out(fs: FileSystem, folder: str, base_offset: int, damage: list[Damage]) -> None:
    """Write the segment again without the damaged bytes; its indexes are built again from it."""
    path = names.path_of(folder, base_offset, names.LOG)
    fs.make_folders(f"{folder}/{KEPT_FOLDER}")
    source = fs.open(path)
    try:
        for place in damage:
            kept = fs.open(f"{folder}/{KEPT_FOLDER}/{base_offset:020d}.{place.position}.bytes", create=True)
            _replace_contents(kept, source, [(place.position, place.end)])
        fresh = fs.open(path + names.TEMPORARY, create=True)
        _replace_contents(fresh, source, _around(damage, source.size))
    finally:
        source.close()
    for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX):
        _remove_if_there(fs, names.path_of(folder, base_offset, suffix))
    fs.rename(path + names.TEMPORARY, path)


def _around(damage: list[Damage], size: int) -> list[tuple[int, int]]:
    """The ranges of bytes that are sound."""
    ends = [0, *(place.end for place in damage)]
    starts = [*(place.position for place in damage), size]
    return [(start, end) for start, end in zip(ends, starts, strict=True) if start < end]


def _replace_contents(target: File, source: File, ranges: list[tuple[int, int]]) -> None:
    target.truncate(0)
    for start, end in ranges:
        for position in range(start, end, COPY_CHUNK):
            target.append(source.read(min(COPY_CHUNK, end - position), position))
    target.sync()
    target.close()


def _forget_producers(fs: FileSystem, folder: str, first_lost: int) -> None:
    """Snapshots from then on may know of batches that are gone; they are taken again from the log."""
    for name in fs.list(folder):
        offset = names.offset_in_name(name)
        if name.endswith(names.PRODUCER_SNAPSHOT) and offset is not None and offset > first_lost:
            fs.remove(f"{folder}/{name}")


def _remove_if_there(fs: FileSystem, path: str) -> None:
    if fs.exists(path):
        fs.remove(path)
