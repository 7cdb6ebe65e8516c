"""A segment: one `.log` file with its indexes, named by the offset it starts at.

The last segment of a log is active: it grows, and its indexes are in memory. All others are sealed: their
files and indexes are opened when somebody asks, and given back when many others are open.
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
    """Positions are bytes in the `.log` file."""

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
        """A new, empty segment; a file of that name that an interrupted roll left behind is emptied."""
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
        """As `create`, without a file; `use_file` follows."""
        segment = cls(fs, folder, base_offset, open_segments, 0)
        segment.created_ms = now_ms
        segment.start_indexes()
        return segment

    @property
    def is_loaded(self) -> bool:
        return self._offset_index is not None and self._file is not None

    # -- indexes ------------------------------------------------------------------------------------

    def start_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Begin with empty indexes: a new segment, or one that is about to be walked through."""
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
        """The transactions that ended here with an abort. There is no file as long as there are none."""
        aborted = self._aborted
        if aborted is None:
            path = self.path(names.TRANSACTION_INDEX)
            exists = self._fs.exists(path)
            aborted = AbortedIndex.from_bytes(self._fs.read_bytes(path)) if exists else NOTHING_ABORTED
            self._aborted = aborted
        return aborted

    @property
    def aborts_nothing(self) -> bool:
        """Known to have no aborted transaction, without asking the disk."""
        return self._aborted is NOTHING_ABORTED

    def note_aborted(self, transaction: AbortedTransaction) -> None:
        if self.aborted is NOTHING_ABORTED:
            self._aborted = AbortedIndex()
        self.aborted.append(transaction)
        self._unsaved = True

    def replace_aborted(self, transactions: AbortedIndex) -> None:
        """Build the transaction index again; the other two stay as they are."""
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
                raise IndexFileError("a segment with records has a largest timestamp")
        except (IndexFileError, FileNotFoundError):
            return self.rebuild_indexes()
        _ = self.file  # so that the indexes are given back when the file is
        indexes = self._offset_index, self._time_index = offsets, times
        return indexes

    def rebuild_indexes(self, interval: int = 4096) -> tuple[OffsetIndex, TimeIndex]:
        """Walk the whole segment. What lies behind a bad batch stays out of the indexes."""
        aborted = self.aborted
        indexes = self.start_indexes()
        self._aborted = aborted  # found by replaying the producers, not by walking
        try:
            for position, header in walk_headers(self.file, 0, self.size, SCAN_CHUNK):
                self.note_batch(position, header, interval)
        except BadBatch:
            pass  # a read at that place fails; the recovery and `verify` say more
        self._note_largest_timestamp()
        self.save_indexes(sync=True)  # nothing will tell the next flush about these files
        return indexes

    def note_batch(self, position: int, header: BatchHeader, interval: int) -> None:
        """What an append does to the indexes, for a batch that is already in the file."""
        self._index(position, header.size, header.last_offset, header.max_timestamp, interval)

    def _index(self, position: int, size: int, last_offset: int, timestamp: int, interval: int) -> None:
        largest = self._largest
        if largest is None:
            largest = self.largest_timestamp
        if timestamp > largest[0]:
            self._largest = timestamp, last_offset
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        if self._bytes_since_index_entry > interval:
            self.offset_index.append(last_offset - self.base_offset, position)
            self._note_largest_timestamp()
            self._bytes_since_index_entry = 0
        self._unsaved = True
        self._bytes_since_index_entry += size

    def _note_largest_timestamp(self) -> None:
        (timestamp, offset), times = self.largest_timestamp, self.time_index
        if timestamp >= 0 and not (times and times.timestamps[-1] >= timestamp):
            times.append(timestamp, offset - self.base_offset)
            self._unsaved = True

    def save_indexes(self, *, sync: bool = False) -> None:
        """Write the index files if they lack something."""
        if self._unsaved:
            self._fs.write_atomic(self.path(names.OFFSET_INDEX), self.offset_index.to_bytes(), sync=sync)
            self._fs.write_atomic(self.path(names.TIME_INDEX), self.time_index.to_bytes(), sync=sync)
            self._save_aborted()
            self._unsaved = False

    def seal_if_unsaved(self) -> bool:
        """Keep what recovery found when it walked through, or what was appended since; False if that was nothing."""
        if is_unsaved := self._unsaved:
            self.seal()
        return is_unsaved

    def seal(self) -> None:
        """Nothing will be appended any more. Kafka ends a time index with the largest timestamp."""
        self._note_largest_timestamp()
        self.save_indexes()

    def sealed_files(self) -> list[tuple[str, bytes]]:
        """(path, contents) of what `seal` would write; `files_were_saved` follows."""
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
            self._save_aborted()  # removes the file of transactions that were cut
        return files

    def files_were_saved(self) -> None:
        self._unsaved = False

    def indexes_are_full(self, index_bytes: int) -> bool:
        # The last place of a time index is kept for the entry that seals it.
        return len(self.offset_index) >= index_bytes // 8 or len(self.time_index) >= index_bytes // 12 - 1

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """(largest timestamp, last offset of its batch); a timestamp of -1 when no record has one."""
        largest = self._largest
        if largest is None:
            largest = self._largest = self._last_time_entry()
        return largest

    def knows_largest_timestamp(self) -> bool:
        """False when only walking through the segment tells it: its index is missing, or has nothing to say."""
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
        """Without loading the indexes: retention asks this of every sealed segment."""
        entry = read_last_time_entry(self._fs, self.path(names.TIME_INDEX))
        return (entry[0], self.base_offset + entry[1]) if entry else None

    def _largest_by_walking(self) -> tuple[int, int]:
        self.rebuild_indexes()
        return self._largest or (NO_TIMESTAMP, self.base_offset)

    def waited_ms(self, timestamp: int, now_ms: int) -> int:
        """How long the segment has been filled, by the records' own clock if they have one (segment.ms)."""
        first = self.first_timestamp
        if first is None:
            first = self._load_first_timestamp()
        return timestamp - first if first >= 0 else now_ms - self.created_ms

    @property
    def earliest_timestamp(self) -> int:
        """The largest timestamp of the first batch, as Kafka reckons it; -1 when there is none."""
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
        """One write; after an error the segment is as it was."""
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
        """The same for several, one behind the other."""
        position = self.size
        self.file.append(batches)
        self.size = position + len(batches)
        for header in headers:
            self.note_batch(position, header, index_interval)
            position += header.size

    def note_write(self, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """A thread has appended a batch to the file."""
        position = self.size
        self.size = position + size
        if self._file is not None:
            self._file.size = self.size
        self._index(position, size, last_offset, max_timestamp, index_interval)

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch that ends at `offset` or later. BadBatch on damage."""
        start = self.offset_index.lookup(offset - self.base_offset) if offset > self.base_offset else 0
        try:
            return self._first_ending_at(offset, start)
        except BadBatch:
            if not start:
                raise
        # The index may have led astray; without it only damage of the segment itself is left.
        found = self._first_ending_at(offset, 0)
        self.rebuild_indexes()
        return found

    def _first_ending_at(self, offset: int, start: int) -> tuple[int, BatchHeader] | None:
        for position, header in walk_headers(self.file, start, self.size):
            if header.last_offset >= offset:
                return position, header
        return None

    def truncate(self, position: int) -> None:
        """Cut everything from `position` on, in the file and in the indexes."""
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
        """Give back the file and the indexes; they are opened again when needed."""
        super().release()
        if not self._unsaved:
            self._offset_index = self._time_index = None
            if self._aborted is not NOTHING_ABORTED:  # or every fetch would ask the disk for some
                self._aborted = None

    def close(self) -> None:
        """Save the indexes, as for a seal, and give everything back."""
        self.seal_if_unsaved()
        self._open_segments.discard(self)
        self.release()

    def forget(self) -> None:
        """Give everything back and save nothing: the files are removed or lost."""
        self._unsaved = False
        self._open_segments.discard(self)
        self.release()

    def retire(self) -> list[str]:
        """The log goes on without this segment: its files, which readers still find as `.deleted`."""
        paths = self.existing_paths()
        self._retired = names.DELETED
        self.forget()
        return paths

    def replacement(self, size: int) -> Segment:
        """The segment that takes the place of this one, from files under the same names."""
        return Segment(self._fs, self.folder, self.base_offset, self._open_segments, size)

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}, {self.size} bytes)"
