"""Writer of a compacted segment: complete, synced, and under `.cleaned` names that readers ignore."""

from __future__ import annotations

from barnabas.common.files import Bytes, FileSystem
from barnabas.log import names
from barnabas.log.segments.aborted_index import AbortedTransaction, encode_aborted
from barnabas.log.segments.indexes import OffsetIndex, TimeIndex
from barnabas.log.segments.segment import MAX_SEGMENT_BYTES
from barnabas.records.batch import NO_TIMESTAMP, BatchHeader, read_header

WRITE_SIZE = 1 << 20


class CleanedSegment:
    def __init__(self, fs: FileSystem, folder: str, base_offset: int, index_interval: int) -> None:
        self._fs = fs
        self._folder = folder
        self._base_offset = base_offset
        self._interval = index_interval
        self._remove_files()  # left by an interrupted compaction
        self._file = fs.open(self._path(names.LOG), create=True)
        self._parts: list[Bytes] = []
        self._unwritten = 0
        self.size = 0
        self._offsets = OffsetIndex()
        self._times = TimeIndex()
        self._largest = (NO_TIMESTAMP, base_offset)
        self._since_entry = 0

    def _path(self, suffix: str) -> str:
        return names.path_of(self._folder, self._base_offset, suffix) + names.CLEANED

    def append(self, batch: Bytes, header: BatchHeader | None = None) -> None:
        """Append a complete batch; the header is parsed if it is not passed."""
        header = header or read_header(batch)
        if header.max_timestamp > self._largest[0]:
            self._largest = header.max_timestamp, header.last_offset
        if self._since_entry > self._interval:
            self._offsets.append(header.last_offset - self._base_offset, self.size)
            self._note_largest_timestamp()
            self._since_entry = 0
        self._since_entry += len(batch)
        self._parts.append(batch)
        self._unwritten += len(batch)
        self.size += len(batch)
        if self._unwritten >= WRITE_SIZE:
            self.write()

    def write(self) -> None:
        if self.size > MAX_SEGMENT_BYTES:
            raise ValueError(f"compacted segment of {self.size} bytes exceeds {MAX_SEGMENT_BYTES} bytes")
        if self._parts:
            self._file.append(b"".join(self._parts))
            self._parts.clear()
            self._unwritten = 0

    def _note_largest_timestamp(self) -> None:
        timestamp, offset = self._largest
        if timestamp >= 0:
            self._times.append(timestamp, offset - self._base_offset)

    def finish(self, aborted: list[AbortedTransaction]) -> None:
        """Write the remaining batches and the indexes, and sync all files."""
        self.write()
        self._note_largest_timestamp()
        self._file.sync()
        self._file.close()
        self._save(names.OFFSET_INDEX, self._offsets.to_bytes())
        self._save(names.TIME_INDEX, self._times.to_bytes())
        if aborted:
            self._save(names.TRANSACTION_INDEX, encode_aborted(aborted))

    def _save(self, suffix: str, data: bytes) -> None:
        file = self._fs.open(self._path(suffix), create=True)
        try:
            file.append(data)
            file.sync()
        finally:
            file.close()

    def discard(self) -> None:
        """Remove all files of the segment."""
        self._file.close()
        self._remove_files()

    def _remove_files(self) -> None:
        for suffix in names.SEGMENT_SUFFIXES:
            if self._fs.exists(self._path(suffix)):
                self._fs.remove(self._path(suffix))
