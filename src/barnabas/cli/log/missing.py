"""`barnabas log repair --accept-loss`: partitions with a missing folder (log/dirs/missing.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from barnabas.cli.options import confirm
from barnabas.cli.output import count, say
from barnabas.common.files import LocalFileSystem
from barnabas.common.types import TopicPartition
from barnabas.log import partition_of_folder
from barnabas.log.dirs import LogDir, accept_losses, noted_without_folder

Missing = dict[TopicPartition, tuple[int, int]]


def is_missing(folder: Path) -> bool:
    """True for the missing folder of a partition that is in the checkpoints of its log dir."""
    partition = partition_of_folder(folder.name)
    is_gone = partition is not None and not folder.exists() and folder.parent.is_dir()
    return is_gone and partition in _missing(LogDir(LocalFileSystem(), str(folder.parent.resolve())))


def give_up(log_dir: LogDir, folder: Path, yes: bool) -> list[dict[str, Any]]:
    """List the missing partitions, confirm, and allow the broker to start without them. `folder` may be the log dir."""
    wanted = partition_of_folder(folder.name) if is_missing(folder) else None
    missing = {each: offsets for each, offsets in _missing(log_dir).items() if wanted in (None, each)}
    for partition, (start, end) in missing.items():
        say(f"{log_dir.folder}/{partition} is missing, with its records from offset {start:,} to {end - 1:,}")
    if missing:
        confirm(f"Give up the records of {count(len(missing), 'partition')}?", yes)
        accept_losses(log_dir, missing)
    return [_row(partition, start, end) for partition, (start, end) in missing.items()]


def _missing(log_dir: LogDir) -> Missing:
    """(log start, end) of each partition in the checkpoint without a folder."""
    names = set(log_dir.fs.list(log_dir.folder))
    return dict(sorted(noted_without_folder(log_dir.read_checkpoints(), names).items()))


def _row(partition: TopicPartition, start: int, end: int) -> dict[str, Any]:
    return {
        "partition": str(partition),
        "file": "",
        "position": 0,
        "bytes": 0,
        "first_offset": start,
        "next_offset": end,
    }
