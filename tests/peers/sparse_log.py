"""A log of any size with little disk usage: batches whose values are holes in sparse files.

Each gigabyte is one segment of 32 pairs: a batch with one small record, then one batch of 32 MiB whose value was never
written. Both indexes have an entry for every batch, as after index.interval.bytes.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

PAIRS = 32
PAIR_BYTES = 32 << 20
FILLER_OFFSETS = 10_000  # as if the filler were a batch that compaction has thinned out
SEGMENT_OFFSETS = PAIRS * (1 + FILLER_OFFSETS)
_BATCH_OVERHEAD = 61
_SMALL_VALUE = b"s" * 100


class Target(NamedTuple):
    """A small record to look up."""

    offset: int
    timestamp: int


def make_sparse_log(folder: Path, segments: int, first_timestamp: int) -> list[Target]:
    """Replace the segments of a partition that its broker has closed; all of it counts as flushed."""
    for path in folder.glob("0*"):
        path.unlink()
    found = []
    for number in range(segments):
        found += _write_segment(folder, number * SEGMENT_OFFSETS, first_timestamp + number * PAIRS * 2)
    end = segments * SEGMENT_OFFSETS
    # No producers, as a clean stop records it; without the snapshot every batch would be walked over.
    (folder / f"{end:020}.snapshot").write_bytes(struct.pack(">hIi", 1, crc32c(bytes(4)), 0))
    _write_checkpoints(folder, end)
    return found


def _write_segment(folder: Path, base: int, timestamp: int) -> list[Target]:
    offsets, times, targets = bytearray(), bytearray(), []
    descriptor = os.open(folder / f"{base:020}.log", os.O_CREAT | os.O_WRONLY, 0o600)
    for pair in range(PAIRS):
        position, offset = pair * PAIR_BYTES, base + pair * (1 + FILLER_OFFSETS)
        small = _small_batch(offset, timestamp)
        head = _filler_head(offset + 1, timestamp + 1, PAIR_BYTES - len(small))
        os.pwrite(descriptor, small + head, position)
        targets.append(Target(offset, timestamp))
        for last, at in ((offset, position), (offset + FILLER_OFFSETS, position + len(small))):
            offsets += struct.pack(">II", last - base, at)
            times += struct.pack(">qI", timestamp, last - base)
            timestamp += 1
    os.ftruncate(descriptor, PAIRS * PAIR_BYTES)
    os.close(descriptor)
    (folder / f"{base:020}.index").write_bytes(offsets)
    (folder / f"{base:020}.timeindex").write_bytes(times)
    return targets


def _small_batch(offset: int, timestamp: int) -> bytes:
    body = b"\x00\x00\x00\x01" + _varint(len(_SMALL_VALUE)) + _SMALL_VALUE + b"\x00"
    checked = struct.pack(">hiqqqhii", 0, 0, timestamp, timestamp, -1, -1, -1, 1) + _varint(len(body)) + body
    after_length = struct.pack(">ibI", 0, 2, crc32c(checked)) + checked
    return struct.pack(">qi", offset, len(after_length)) + after_length


def _filler_head(offset: int, timestamp: int, size: int) -> bytes:
    """Everything in front of the value, which is zeros, as is the count of headers behind it.

    No checksum: this batch is walked over, never read.
    """
    # Lengths of 32 MiB take four bytes each; so do all between 1 MiB and 128 MiB.
    value = size - _BATCH_OVERHEAD - 4 - 4 - 4 - 1
    record = _varint(value + 4 + 4 + 1) + b"\x00\x00\x00\x01" + _varint(value)
    header = struct.pack(">qiibI", offset, size - 12, 0, 2, 0)
    return (
        header + struct.pack(">hiqqqhii", 0, FILLER_OFFSETS - 1, timestamp, timestamp, -1, -1, -1, 1) + record
    )


def _varint(value: int) -> bytes:
    value <<= 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(encoded) + bytes([value])


def _write_checkpoints(folder: Path, end: int) -> None:
    topic, _, partition = folder.name.rpartition("-")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        path = folder.parent / name
        kept = [
            line for line in path.read_text().splitlines()[2:] if not line.startswith(f"{topic} {partition} ")
        ]
        lines = ["0", str(len(kept) + 1), *kept, f"{topic} {partition} {end}"]
        path.write_text("\n".join(lines) + "\n")
