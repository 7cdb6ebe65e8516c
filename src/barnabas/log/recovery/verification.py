"""Verify a partition's files without changing them: every batch, every record, every index entry.

Damage is a batch that differs from what was written; a broker must not serve it. A remark is a defect that the
broker corrects automatically, such as an index that does not match its segment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from barnabas.common.files import File, FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import RECOVERY_POINTS, CheckpointError, decode_offsets, read_if_exists
from barnabas.log.segments.indexes import IndexFileError, OffsetIndex, TimeIndex
from barnabas.log.segments.scan import BadBatch, plausible_header, walk_batches
from barnabas.records import InvalidRecords, iterate_records
from barnabas.records.batch import HEADER_SIZE, MAGIC, MAGIC_POSITION, BatchHeader, crc_is_right

# -- Kind of the last shutdown, and the result of recovery ---------------------------------------------


class ShutdownKind(Enum):
    """Kind of the broker's last shutdown."""

    CLEAN = "clean"
    KILLED = "killed"
    CRASHED = "crashed"


@dataclass(slots=True)
class RecoveryReport:
    """Result of recovering one log."""

    scanned_bytes: int = 0
    cut_bytes: int = 0
    cut_batches: int = 0  # with a readable header
    cut_reason: str = ""


SEARCH_CHUNK = 1 << 20
_MAGIC_BYTE = bytes([MAGIC])


class Damage(NamedTuple):
    """Bytes [position, end) of a segment that are not valid batches of the log; an empty range if bytes are missing."""

    file: str
    position: int
    end: int
    what: str


@dataclass(slots=True)
class PartitionReport:
    """Result of verifying one partition."""

    folder: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    begin: int | None = None
    end: int | None = None
    damage: list[Damage] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.damage


def verify_partition(fs: FileSystem, folder: str) -> PartitionReport:
    """Read all files of the partition. Raise OSError if the folder cannot be read."""
    report = PartitionReport(folder)
    for base_offset in segment_offsets(fs, folder):
        path = names.path_of(folder, base_offset, names.LOG)
        file = fs.open(path)
        try:
            _verify_segment(fs, file, base_offset, report)
        finally:
            file.close()
    _verify_end(fs, report)
    return report


def recovery_point(fs: FileSystem, folder: str) -> int:
    """Recovery point of the partition: the offset up to which it was flushed; 0 if unknown."""
    tp = names.partition_of_folder(os.path.basename(folder))
    try:
        offsets = decode_offsets(read_if_exists(fs, f"{os.path.dirname(folder)}/{RECOVERY_POINTS}") or b"")
    except CheckpointError:
        return 0
    return offsets.get(tp, 0) if tp is not None else 0


def _verify_end(fs: FileSystem, report: PartitionReport) -> None:
    expected, end = recovery_point(fs, report.folder), report.end or 0
    if end < expected:
        what = f"the log ends at offset {end}, but was flushed up to {expected}"
        report.damage.append(Damage(report.folder, 0, 0, what))


def segment_offsets(fs: FileSystem, folder: str) -> list[int]:
    """Base offsets of the partition's segments, in order."""
    offsets = (names.offset_in_name(name) for name in fs.list(folder) if name.endswith(names.LOG))
    return sorted(offset for offset in offsets if offset is not None)


def sound_batches(
    file: File, base_offset: int, first_allowed: int
) -> Iterator[tuple[int, BatchHeader] | Damage]:
    """Yield the intact batches of a segment and the damage between them; reading continues after damage."""
    start, next_offset = 0, max(base_offset, first_allowed)
    while start < file.size:
        try:
            for position, header, batch in walk_batches(file, start, file.size):
                _check_batch(position, header, batch, next_offset)
                yield position, header
                next_offset = header.next_offset
            return
        except BadBatch as bad:
            start = find_batch(file, bad.position + 1, next_offset)
            yield Damage(file.path, bad.position, start, bad.reason)


def find_batch(file: File, position: int, next_offset: int) -> int:
    """Position of the next complete batch with a valid CRC and a plausible offset; the file size if there is none."""
    while position + HEADER_SIZE <= file.size:
        chunk = file.read(SEARCH_CHUNK + HEADER_SIZE, position)
        at = chunk.find(_MAGIC_BYTE, MAGIC_POSITION)
        while 0 <= at < len(chunk) and at - MAGIC_POSITION < SEARCH_CHUNK:
            candidate = position + at - MAGIC_POSITION
            if _is_batch(file, candidate, next_offset):
                return candidate
            at = chunk.find(_MAGIC_BYTE, at + 1)
        position += SEARCH_CHUNK
    return file.size


def _is_batch(file: File, position: int, next_offset: int) -> bool:
    try:
        header = plausible_header(file.read(HEADER_SIZE, position), 0, position, file.size)
    except BadBatch:
        return False
    if header.base_offset < next_offset:
        return False
    return crc_is_right(memoryview(file.read(header.size, position)), 0, header.size)


def _check_batch(position: int, header: BatchHeader, batch: memoryview, next_offset: int) -> None:
    if header.base_offset < next_offset:
        raise BadBatch(position, f"offset {header.base_offset}; expected {next_offset} or higher")
    try:
        last = -1
        for record in iterate_records(batch, header):
            if not last < record.offset - header.base_offset <= header.last_offset_delta:
                raise BadBatch(position, f"a batch with a record of offset {record.offset} out of order")
            last = record.offset - header.base_offset
    except InvalidRecords as error:
        raise BadBatch(position, f"a batch whose records cannot be read ({error.message})") from None


def _verify_segment(fs: FileSystem, file: File, base_offset: int, report: PartitionReport) -> None:
    report.segments += 1
    report.bytes += file.size
    last_offsets: dict[int, int] = {}
    for item in sound_batches(file, base_offset, report.end or 0):
        if isinstance(item, Damage):
            report.damage.append(item)
            continue
        position, header = item
        last_offsets[position] = header.last_offset
        report.batches += 1
        report.records += header.record_count
        report.begin = header.base_offset if report.begin is None else report.begin
        report.end = header.next_offset
    report.remarks += _index_remarks(fs, report.folder, base_offset, file.size, last_offsets)


def _index_remarks(
    fs: FileSystem, folder: str, base_offset: int, size: int, last_offsets: dict[int, int]
) -> Iterator[str]:
    offset_path = names.path_of(folder, base_offset, names.OFFSET_INDEX)
    time_path = names.path_of(folder, base_offset, names.TIME_INDEX)
    try:
        if fs.exists(offset_path):
            index = OffsetIndex.from_bytes(_without_padding(fs.read_bytes(offset_path), 8), size)
            wrong = sum(
                last_offsets.get(position) != base_offset + offset
                for offset, position in zip(index.offsets, index.positions, strict=True)
            )
            if wrong:
                yield f"{offset_path}: {wrong} of {len(index)} entries do not match a batch"
        if fs.exists(time_path):
            TimeIndex.from_bytes(_without_padding(fs.read_bytes(time_path), 12))
    except IndexFileError as error:
        yield f"an index of segment {base_offset} is invalid and will be rebuilt: {error}"


def _without_padding(data: bytes, entry_size: int) -> bytes:
    """Strip trailing zeros: Apache Kafka preallocates the indexes of the active segment."""
    entries = -(-len(data.rstrip(b"\0")) // entry_size)
    return data[: entries * entry_size] if len(data) % entry_size == 0 else data
