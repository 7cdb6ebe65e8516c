"""File names within a table's folder, and selection of files to merge. No I/O."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from barnabas.common.durations import seconds_of
from barnabas.pipelines.definitions.settings import Compaction

HIDDEN = "_barnabas"
"""Spark, Hive, DuckDB and pyarrow ignore folders whose names begin with an underscore."""

_DATE = re.compile(r"date=(\d{4}-\d{2}-\d{2})")
_HOUR = re.compile(r"hour=(\d{1,2})")
MIB = 1024 * 1024


class FileMerge(NamedTuple):
    """Files of one partition to merge."""

    partition: str
    files: tuple[str, ...]
    pieces: int


def final_name(name: str, query: str, batch: int, index: int) -> str:
    """Return `date=.../hour=.../batch-...parquet`: the same name in every attempt at a batch."""
    folder, file = posixpath.split(name)
    ending = file[file.index(".") :]
    return posixpath.join(folder, f"batch-{query[:8]}-{batch:08d}-{index:04d}{ending}")


def is_of_batch(name: str) -> bool:
    """True for files written by a batch, False for merged files."""
    return posixpath.basename(name).startswith("batch-")


def hour_of(partition: str) -> datetime | None:
    """Parse the hour of a folder such as `date=2026-11-16/hour=07`; None for other names and for hours outside Python's
    datetime range, because producers write arbitrary timestamps."""
    date, hour = _DATE.search(partition), _HOUR.search(partition)
    if date is None or hour is None:
        return None
    try:
        return datetime.fromisoformat(date[1]).replace(tzinfo=UTC) + timedelta(hours=int(hour[1]))
    except (ValueError, OverflowError):
        return None


def plan_merges(files: Iterable[tuple[str, int]], rule: Compaction) -> list[FileMerge]:
    """Select partitions with enough files that are old enough, relative to the newest one, to no longer grow."""
    by_partition: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, size in files:
        by_partition[posixpath.dirname(name)].append((name, size))
    hours = {partition: hour_of(partition) for partition in by_partition}
    newest = max((hour for hour in hours.values() if hour is not None), default=None)
    if newest is None:
        return []
    after = timedelta(seconds=seconds_of(rule.after))
    merges = (
        _merge(partition, found, rule)
        for partition, found in sorted(by_partition.items())
        if (hour := hours[partition]) is not None and newest - hour >= after
    )
    return [merge for merge in merges if merge is not None]


def _merge(partition: str, found: list[tuple[str, int]], rule: Compaction) -> FileMerge | None:
    """Plan the merge of small files only: otherwise a large partition would be rewritten repeatedly."""
    target = rule.target_mib * MIB
    small = {name: size for name, size in found if size < target // 2}
    pieces = max(1, -(-sum(small.values()) // target))
    worth_it = len(small) >= rule.files and pieces <= len(small) // 2
    return FileMerge(partition, tuple(sorted(small)), pieces) if worth_it else None
