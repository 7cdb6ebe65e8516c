"""Simulated power failure: everything after the last fsync may be lost, even part of a batch."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

from barnabas.log.checkpoints import decode_offsets
from barnabas.log.dirs.properties import BOOT_ID
from barnabas.log.names import partition_of_folder

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
_BATCH = struct.Struct(">qi")  # base offset, and how many bytes follow


def forget_unsynced(folder: Path) -> None:
    """Cut the last segment of every partition anywhere above its recovery point."""
    checkpoint = folder / RECOVERY_POINTS
    synced = decode_offsets(checkpoint.read_bytes()) if checkpoint.exists() else {}
    for partition_folder in folder.iterdir():
        tp = partition_of_folder(partition_folder.name)
        segments = sorted(partition_folder.glob("*.log")) if tp is not None else []
        if tp is not None and segments:
            _cut(segments[-1], synced.get(tp, 0))
    (folder / BOOT_ID).write_text("another boot\n")


def _cut(segment: Path, recovery_point: int) -> None:
    size = segment.stat().st_size
    os.truncate(segment, random.randint(_position_of(segment.read_bytes(), recovery_point), size))


def _position_of(data: bytes, offset: int) -> int:
    position = 0
    while position + _BATCH.size <= len(data):
        base_offset, length = _BATCH.unpack_from(data, position)
        if base_offset >= offset:
            break
        position += _BATCH.size + length
    return min(position, len(data))
