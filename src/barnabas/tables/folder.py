"""Topics of a data folder, read without a broker; if a broker is running, up to its high-watermark checkpoint.

A first pass over batch headers finds the batches, aborted transactions and open transactions. Files are read, not
mapped: a broker may truncate or delete them during the read.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import error as struct_error
from typing import NamedTuple

from barnabas.client import FetchedRange
from barnabas.client.offsets import OffsetRange
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.log import HIGH_WATERMARKS, LOG_STARTS, CheckpointError, decode_offsets, names
from barnabas.log.recovery import transaction_marker
from barnabas.records.batch import HEADER_SIZE, MIN_LENGTH, BatchHeader, read_header
from barnabas.records.columnar.plan import DecodePlan, PlannedBatch, check_batch
from barnabas.tables.errors import DamagedFileError, TableError
from barnabas.tables.sources import Bounds, OpenSource, Snapshot, TableSource, TimeBound

CHUNK = 4 * 1024 * 1024


class StoredBatch(NamedTuple):
    """A batch in a file."""

    file: OpenSegmentFile
    position: int
    header: BatchHeader


class OpenSegmentFile:
    """A `.log` file, open for the whole read: a file deleted during the read stays readable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def close(self) -> None:
        os.close(self._descriptor)

    def batches(self) -> Iterator[StoredBatch]:
        """Batches in offset order; a truncated batch at the end is skipped."""
        position = 0
        while position + HEADER_SIZE <= self.size:
            try:
                header = read_header(self.read(position, HEADER_SIZE))
            except struct_error:
                return  # the file was truncated during the read
            if header.length < MIN_LENGTH:
                raise DamagedFileError(f"{self.path} is damaged at byte {position}: not a record batch")
            if position + header.size > self.size:
                return
            yield StoredBatch(self, position, header)
            position += header.size


class VisibleBatches(NamedTuple):
    """Batches of a partition that are visible with isolation level read_committed."""

    bounds: Bounds
    batches: list[StoredBatch]


def open_folder(data: str) -> OpenSource:
    async def open_source() -> TableSource:
        return FolderTableSource(Path(data))

    return open_source


class FolderTableSource:
    def __init__(self, data: Path) -> None:
        if not data.is_dir():
            raise TableError(f"{data} is not a folder: pass the folder of `barnabas serve --data`")
        self._data = data
        self._walked: dict[TopicPartition, VisibleBatches] = {}
        self._files: list[OpenSegmentFile] = []

    async def topics(self) -> list[str]:
        return sorted({tp.topic for tp, _ in self._partitions()})

    async def snapshot(self, topic: str) -> Snapshot:
        found = {tp: folder for tp, folder in self._partitions() if tp.topic == topic}
        if not found:
            known = ", ".join(await self.topics()) or "none"
            raise TableError(f"unknown topic {topic} in {self._data}; topics: {known}")
        for tp, folder in sorted(found.items()):
            starts, ends = self._checkpoint(folder, LOG_STARTS), self._checkpoint(folder, HIGH_WATERMARKS)
            self._walked[tp] = self._walk(folder, starts.get(tp, 0), ends.get(tp, 0))
        return {tp: self._walked[tp].bounds for tp in sorted(found)}

    async def since(self, snapshot: Snapshot, timestamp: int) -> dict[TopicPartition, int]:
        return {tp: self._since(tp, timestamp) for tp in snapshot}

    async def time_bounds(self, snapshot: Snapshot, limit: int) -> dict[TopicPartition, list[TimeBound]]:
        return {tp: self._time_bounds(tp, limit) for tp in snapshot}

    def read(self, ranges: Iterable[OffsetRange]) -> FolderSource:
        return FolderSource(
            [(offset_range, self._walked[offset_range.tp].batches) for offset_range in ranges]
        )

    async def close(self) -> None:
        for file in self._files:
            file.close()
        self._files.clear()

    def _partitions(self) -> Iterator[tuple[TopicPartition, Path]]:
        for folder in sorted(self._data.iterdir()):
            tp = names.partition_of_folder(folder.name)
            if tp is not None and folder.is_dir():
                yield tp, folder

    def _checkpoint(self, folder: Path, name: str) -> dict[TopicPartition, int]:
        path = folder.parent / name
        try:
            return decode_offsets(path.read_bytes())
        except FileNotFoundError:
            return {}
        except CheckpointError as error:
            raise DamagedFileError(f"{path} cannot be read: {error}") from error

    def _walk(self, folder: Path, start: int, until: int) -> VisibleBatches:
        bases = sorted(
            offset
            for path in folder.iterdir()
            if path.suffix == names.LOG and (offset := names.offset_in_name(path.name)) is not None
        )
        first = max(start, bases[0]) if bases else start
        ends = [*bases[1:], until + 1]
        needed = [base for base, end in zip(bases, ends, strict=False) if base < until and end > first]
        files = [OpenSegmentFile(Path(names.path_of(str(folder), base, names.LOG))) for base in needed]
        self._files += files
        return walk(files, first, max(first, until))

    def _since(self, tp: TopicPartition, timestamp: int) -> int:
        bounds, batches = self._walked[tp]
        for stored in batches:
            if stored.header.max_timestamp >= timestamp:
                return max(bounds.first, stored.header.base_offset)
        return bounds.until

    def _time_bounds(self, tp: TopicPartition, limit: int) -> list[TimeBound]:
        _, batches = self._walked[tp]
        step = max(1, len(batches) // limit)
        found, newest = [], -1
        for number, stored in enumerate(batches, 1):
            newest = max(newest, stored.header.max_timestamp)
            if number % step == 0 or number == len(batches):
                found.append(TimeBound(stored.header.next_offset, newest + 1))
        return found


def walk(files: list[OpenSegmentFile], first: int, until: int) -> VisibleBatches:
    """Return the batches from `first`; the end is the last stable offset, at most `until`."""
    kept: list[StoredBatch] = []
    hidden: set[int] = set()
    open_transactions: dict[int, list[StoredBatch]] = defaultdict(list)
    end = first
    for stored in (stored for file in files for stored in file.batches()):
        header = stored.header
        if header.base_offset >= until:
            break
        end = max(end, min(header.next_offset, until))
        if header.is_control:
            _end_transaction(stored, open_transactions, hidden)
        elif header.last_offset >= first:
            kept.append(stored)
        if header.is_transactional and not header.is_control:
            open_transactions[header.producer_id].append(stored)
    started = [batches[0].header.base_offset for batches in open_transactions.values()]
    end = min([end, *started]) if started else end
    seen = [stored for stored in kept if id(stored) not in hidden and stored.header.base_offset < end]
    return VisibleBatches(Bounds(first, max(first, end)), seen)


def _end_transaction(
    stored: StoredBatch, open_transactions: dict[int, list[StoredBatch]], hidden: set[int]
) -> None:
    batch = memoryview(stored.file.read(stored.position, stored.header.size))
    marker = transaction_marker(batch, stored.header)
    if marker is None:
        return
    batches = open_transactions.pop(stored.header.producer_id, [])
    if not marker.committed:
        hidden.update(map(id, batches))


class FolderSource:
    """A BatchSource that reads adjacent batches of a file at once."""

    def __init__(self, ranges: list[tuple[OffsetRange, list[StoredBatch]]]) -> None:
        self._chunks = [
            (offset_range, chunk)
            for offset_range, batches in ranges
            for chunk in _chunks(offset_range, batches)
        ]
        self._at = 0

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._chunks)

    async def next(self) -> list[FetchedRange]:
        offset_range, chunk = self._chunks[self._at]
        self._at += 1
        start, file = chunk[0].position, chunk[0].file
        data = memoryview(file.read(start, chunk[-1].position + chunk[-1].header.size - start))
        batches = [PlannedBatch(stored.position - start, stored.header) for stored in chunk]
        for batch in batches:
            _check(file, start, data, batch)
        planned = DecodePlan(data, batches, chunk[-1].header.next_offset)
        return [FetchedRange(offset_range.tp, offset_range.first, offset_range.until, planned)]

    async def close(self) -> None:
        self._at = len(self._chunks)


def _chunks(offset_range: OffsetRange, batches: list[StoredBatch]) -> Iterator[list[StoredBatch]]:
    held: list[StoredBatch] = []
    for stored in batches:
        header = stored.header
        if header.last_offset < offset_range.first or header.base_offset >= offset_range.until:
            continue
        end = stored.position + header.size
        if held and (held[0].file is not stored.file or end - held[0].position > CHUNK):
            yield held
            held = []
        held.append(stored)
    if held:
        yield held


def _check(file: OpenSegmentFile, start: int, data: memoryview, batch: PlannedBatch) -> None:
    try:
        check_batch(data[batch.start : batch.end], batch.header)
    except KafkaError as error:
        raise DamagedFileError(
            f"{file.path}, byte {start + batch.start}: {error.message}. "
            "`barnabas log verify` checks the whole folder"
        ) from error
