"""A segment: one `.log` file with its indexes, named after its base offset.

The last segment of a log is active: batches are appended to it, and its indexes are in memory. All others are
sealed: their files and indexes are opened on demand, and released when too many segments are open.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.common.files import Bytes, FileSystem
from barnabas.log import names
from barnabas.log.segments.aborted_index import NOTHING_ABORTED, AbortedIndex, AbortedTransaction
from barnabas.log.segments.indexes import IndexFileError, OffsetIndex, TimeIndex, read_last_time_entry
from barnabas.log.segments.scan import SCAN_CHUNK, BadBatch, walk_headers
from barnabas.log.segments.segment_file import OpenSegments, SegmentFile
from barnabas.records.batch import NO_TIMESTAMP, BatchHeader

MAX_SEGMENT_BYTES = 0x7FFFFFFF


class Segment(SegmentFile):
    """One segment. Positions are byte offsets in the `.log` file."""

    __slots__ = (
        "_aborted",
        "_bytes_since_index_entry",
        "_largest",
        "_offset_index",
        "_time_index",
        "_unsaved",
        "created_ms",
        "first_timestamp",
    )

    def __init__(
        self, fs: FileSystem, folder: str, base_offset: int, open_segments: OpenSegments, size: int
    ) -> None:
        super().__init__(fs, folder, base_offset, open_segments, size)
        self.created_ms = 0
        self.first_timestamp: int | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._aborted: AbortedIndex | None = None
        self._unsaved = False
        self._bytes_since_index_entry = 0
        self._largest: tuple[int, int] | None = None

    @classmethod
    def create(
        cls, fs: FileSystem, folder: str, base_offset: int, open_segments: OpenSegments, now_ms: int
    ) -> Segment:
        """Create an empty segment; truncate the file if an interrupted roll left one of that name."""
        segment = cls.planned(fs, folder, base_offset, open_segments, now_ms)
        file = fs.open(segment.path(names.LOG), create=True)
        if file.size:
            file.truncate(0)
        segment.use_file(file)
        return segment

    @classmethod
    def planned(
        cls, fs: FileSystem, folder: str, base_offset: int, open_segments: OpenSegments, now_ms: int
    ) -> Segment:
        """Like `create`, but without a file: the caller passes it to `use_file`."""
        segment = cls(fs, folder, base_offset, open_segments, 0)
        segment.created_ms = now_ms
        segment.start_indexes()
        return segment

    @property
    def is_loaded(self) -> bool:
        return self._offset_index is not None and self._file is not None

    # -- indexes ------------------------------------------------------------------------------------

    def start_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Start with empty indexes, for a new segment or before a scan."""
        indexes = self._offset_index, self._time_index = OffsetIndex(), TimeIndex()
        self._aborted = NOTHING_ABORTED
        self._unsaved = True
        self._bytes_since_index_entry = 0
        self._largest = (NO_TIMESTAMP, self.base_offset)
        self.first_timestamp = None
        return indexes

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        return index if index is not None else self._load_indexes()[0]

    @property
    def time_index(self) -> TimeIndex:
        index = self._time_index
        return index if index is not None else self._load_indexes()[1]

    @property
    def aborted(self) -> AbortedIndex:
        """Transactions with an abort marker in this segment. If there are none, the index file is absent."""
        aborted = self._aborted
        if aborted is None:
            path = self.path(names.TRANSACTION_INDEX)
            exists = self._fs.exists(path)
            aborted = AbortedIndex.from_bytes(self._fs.read_bytes(path)) if exists else NOTHING_ABORTED
            self._aborted = aborted
        return aborted

    @property
    def aborts_nothing(self) -> bool:
        """True if the segment is known to have no aborted transactions, without reading the file."""
        return self._aborted is NOTHING_ABORTED

    def note_aborted(self, transaction: AbortedTransaction) -> None:
        if self.aborted is NOTHING_ABORTED:
            self._aborted = AbortedIndex()
        self.aborted.append(transaction)
        self._unsaved = True

    def replace_aborted(self, transactions: AbortedIndex) -> None:
        """Replace the transaction index, in memory and on disk; the other two are unchanged."""
        self._aborted = transactions
        self._save_aborted()

    def _save_aborted(self) -> None:
        path = self.path(names.TRANSACTION_INDEX)
        if self._aborted:
            self._fs.write_atomic(path, self._aborted.to_bytes(), sync=False)
        elif self._aborted is not None and self._fs.exists(path):
            self._fs.remove(path)

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        if not self.size:
            _ = self.file
            return self.start_indexes()
        try:
            offsets = OffsetIndex.from_bytes(self._fs.read_bytes(self.path(names.OFFSET_INDEX)), self.size)
            times = TimeIndex.from_bytes(self._fs.read_bytes(self.path(names.TIME_INDEX)))
            if not times and self.size and self._largest is None:
                raise IndexFileError("the time index of a segment with records is empty")
        except (IndexFileError, FileNotFoundError):
            return self.rebuild_indexes()
        _ = self.file  # opened, so that eviction releases the indexes with it
        indexes = self._offset_index, self._time_index = offsets, times
        return indexes

    def rebuild_indexes(self, interval: int = 4096) -> tuple[OffsetIndex, TimeIndex]:
        """Rebuild the indexes from the whole segment, up to the first invalid batch."""
        aborted = self.aborted
        indexes = self.start_indexes()
        self._aborted = aborted  # headers do not have them; replaying the producer state does
        try:
            for position, header in walk_headers(self.file, 0, self.size, SCAN_CHUNK):
                self.note_batch(position, header, interval)
        except BadBatch:
            pass  # a read of that batch fails; recovery and `verify` report it
        self._note_largest_timestamp()
        self.save_indexes(sync=True)  # the next flush does not cover these files
        return indexes

    def note_batch(self, position: int, header: BatchHeader, interval: int) -> None:
        """Add a batch that is already in the file to the indexes, as an append does."""
        self._index(position, header.size, header.last_offset, header.max_timestamp, interval)

    def _index(self, position: int, size: int, last_offset: int, timestamp: int, interval: int) -> None:
        largest = self._largest
        if largest is None:
            largest = self.largest_timestamp
        if timestamp > largest[0]:
            self._largest = timestamp, last_offset
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        unindexed = self._bytes_since_index_entry
        if unindexed > interval:
            self.offset_index.append(last_offset - self.base_offset, position)
            self._note_largest_timestamp()
            unindexed = 0
        self._unsaved = True
        self._bytes_since_index_entry = unindexed + size

    def _note_largest_timestamp(self) -> None:
        (timestamp, offset), times = self.largest_timestamp, self.time_index
        if timestamp >= 0 and not (times and times.timestamps[-1] >= timestamp):
            times.append(timestamp, offset - self.base_offset)
            self._unsaved = True

    def save_indexes(self, *, sync: bool = False) -> None:
        """Write the index files if the indexes have changed since the last save."""
        if self._unsaved:
            self._fs.write_atomic(self.path(names.OFFSET_INDEX), self.offset_index.to_bytes(), sync=sync)
            self._fs.write_atomic(self.path(names.TIME_INDEX), self.time_index.to_bytes(), sync=sync)
            self._save_aborted()
            self._unsaved = False

    def seal_if_unsaved(self) -> bool:
        """Save indexes that recovery rebuilt or that appends extended; False if they had not changed."""
        if is_unsaved := self._unsaved:
            self.seal()
        return is_unsaved

    def seal(self) -> None:
        """Save the indexes after the last append. As in Kafka, the time index ends with the largest timestamp."""
        self._note_largest_timestamp()
        self.save_indexes()

    def sealed_files(self) -> list[tuple[str, bytes]]:
        """(path, contents) of the files that `seal` writes. The caller writes them and calls `files_were_saved`."""
        self._note_largest_timestamp()
        if not self._unsaved:
            return []
        files = [
            (self.path(names.OFFSET_INDEX), self.offset_index.to_bytes()),
            (self.path(names.TIME_INDEX), self.time_index.to_bytes()),
        ]
        if self._aborted:
            files.append((self.path(names.TRANSACTION_INDEX), self._aborted.to_bytes()))
        else:
            self._save_aborted()  # removes the file if truncation removed all its transactions
        return files

    def files_were_saved(self) -> None:
        self._unsaved = False

    def indexes_are_full(self, index_bytes: int) -> bool:
        # One entry of the time index is reserved for the largest timestamp, added by `seal`.
        return len(self.offset_index) >= index_bytes // 8 or len(self.time_index) >= index_bytes // 12 - 1

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """(largest timestamp, last offset of its batch); the timestamp is -1 if no record has one."""
        largest = self._largest
        if largest is None:
            largest = self._largest = self._last_time_entry()
        return largest

    def knows_largest_timestamp(self) -> bool:
        """False if finding it needs a scan, because the time index file is missing, empty or invalid."""
        if self._largest is not None or self._time_index is not None or not self.size:
            return True
        self._largest = self._entry_on_disk()
        return self._largest is not None

    def _last_time_entry(self) -> tuple[int, int]:
        if self._time_index is None and self.size:
            return self._entry_on_disk() or self._largest_by_walking()
        times = self._time_index
        if not times:
            return NO_TIMESTAMP, self.base_offset
        return times.timestamps[-1], self.base_offset + times.offsets[-1]

    def _entry_on_disk(self) -> tuple[int, int] | None:
        """Read the last time index entry without loading the indexes, as retention needs it of every segment."""
        entry = read_last_time_entry(self._fs, self.path(names.TIME_INDEX))
        return (entry[0], self.base_offset + entry[1]) if entry else None

    def _largest_by_walking(self) -> tuple[int, int]:
        self.rebuild_indexes()
        return self._largest or (NO_TIMESTAMP, self.base_offset)

    def waited_ms(self, timestamp: int, now_ms: int) -> int:
        """Age of the segment for segment.ms: by record timestamps if they have them, else by the clock."""
        first = self.first_timestamp
        if first is None:
            first = self._load_first_timestamp()
        return timestamp - first if first >= 0 else now_ms - self.created_ms

    @property
    def earliest_timestamp(self) -> int:
        """Largest timestamp of the first batch, as in Kafka; -1 if there is none."""
        first = self.first_timestamp
        return first if first is not None else self._load_first_timestamp()

    def _load_first_timestamp(self) -> int:
        first = next(walk_headers(self.file, 0, self.size), None)
        self.first_timestamp = first[1].max_timestamp if first else NO_TIMESTAMP
        return self.first_timestamp

    # -- contents -----------------------------------------------------------------------------------

    def append(
        self, batch: Bytes, size: int, last_offset: int, max_timestamp: int, index_interval: int
    ) -> None:
        """Append a batch in one write; after an error the segment is unchanged."""
        file = self._file
        if file is None:
            file = self.file
        else:
            self.used = True
        position = self.size
        file.append(batch)
        self.size = position + size
        self._index(position, size, last_offset, max_timestamp, index_interval)

    def append_run(self, batches: Bytes, headers: Iterable[BatchHeader], index_interval: int) -> None:
        """Append several consecutive batches in one write."""
        position = self.size
        self.file.append(batches)
        self.size = position + len(batches)
        for header in headers:
            self.note_batch(position, header, index_interval)
            position += header.size

    def note_write(self, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Record a batch that another thread appended to the file."""
        position = self.size
        self.size = position + size
        if self._file is not None:
            self._file.size = self.size
        self._index(position, size, last_offset, max_timestamp, index_interval)

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return position and header of the first batch that ends at `offset` or later. Raise BadBatch on damage."""
        start = self.offset_index.lookup(offset - self.base_offset) if offset > self.base_offset else 0
        try:
            return self._first_ending_at(offset, start)
        except BadBatch:
            if not start:
                raise
        # The index may be wrong. A scan from the start fails only if the segment itself is damaged.
        match = self._first_ending_at(offset, 0)
        self.rebuild_indexes()
        return match

    def _first_ending_at(self, offset: int, start: int) -> tuple[int, BatchHeader] | None:
        for position, header in walk_headers(self.file, start, self.size):
            if header.last_offset >= offset:
                return position, header
        return None

    def truncate(self, position: int) -> None:
        """Truncate the file at `position`, and the indexes with it."""
        kept_last = self._last_offset_before(position)
        offsets, times = self.offset_index, self.time_index
        self.file.truncate(position)
        self.size = position
        offsets.truncate(position)
        times.truncate(kept_last + 1 - self.base_offset)
        if self.aborted is not NOTHING_ABORTED:
            self._aborted = self.aborted.ended_by(kept_last)
        self._unsaved = True
        self._bytes_since_index_entry = position - (offsets.positions[-1] if offsets else 0)
        if not position:
            self.start_indexes()
        else:
            self._largest = self._rescan_largest()

    def _last_offset_before(self, position: int) -> int:
        last = self.base_offset - 1
        start = next((entry for entry in reversed(self.offset_index.positions) if entry < position), 0)
        for _, header in walk_headers(self.file, start, position):
            last = header.last_offset
        return last

    def _rescan_largest(self) -> tuple[int, int]:
        largest = self._last_time_entry()
        start = self.offset_index.positions[-1] if self.offset_index else 0
        for _, header in walk_headers(self.file, start, self.size):
            if header.max_timestamp > largest[0]:
                largest = header.max_timestamp, header.last_offset
        return largest

    # -- files --------------------------------------------------------------------------------------

    def release(self) -> None:
        """Drop the file and the saved indexes; they are reloaded on demand."""
        super().release()
        if not self._unsaved:
            self._offset_index = self._time_index = None
            if self._aborted is not NOTHING_ABORTED:  # kept, or every fetch would check for the file
                self._aborted = None

    def close(self) -> None:
        """Save the indexes, as `seal` does, and release file and indexes."""
        self.seal_if_unsaved()
        self._open_segments.discard(self)
        self.release()

    def forget(self) -> None:
        """Release file and indexes without saving: the files are deleted or lost."""
        self._unsaved = False
        self._open_segments.discard(self)
        self.release()

    def retire(self) -> list[str]:
        """Take the segment out of the log. Return its files, which the caller renames to `.deleted` for readers."""
        paths = self.existing_paths()
        self._retired = names.DELETED
        self.forget()
        return paths

    def replacement(self, size: int) -> Segment:
        """Return the segment that replaces this one, with files of the same names."""
        return Segment(self._fs, self.folder, self.base_offset, self._open_segments, size)

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}, {self.size} bytes)"
