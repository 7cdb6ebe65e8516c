"""Files source: reads the data appended since the last transaction as batches of lines."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from barnabas.client.producing import RecordBatch, partition_for_key
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.records import Header, LineEncoder, Record
from barnabas.records.compression import CODEC_BY_NAME
from barnabas.records.delays import REASON_HEADER
from barnabas.services.ingest.agent import SourceStatus
from barnabas.services.ingest.batches import BatchTopics
from barnabas.services.ingest.delivery import Collected
from barnabas.services.ingest.files.contents import UnfinishedError
from barnabas.services.ingest.files.events import NEWLINE, Events, join_lines, separate_too_long, split_lines
from barnabas.services.ingest.files.identity import FilePosition, continues, is_same_head, moved_to
from barnabas.services.ingest.files.tracking import SETTLED_SECONDS, TrackedFile, Tracker

POLL_SECONDS = 0.25
PIECE = 1024 * 1024
"""Read size; larger only if `max_line_bytes` requires it."""
MAX_SKIPPED = 32 * PIECE
"""Maximum bytes of an oversized line skipped per turn."""
SHOWN_OF_TOO_LONG = 64 * 1024
"""Bytes of an oversized line kept in its dead letter."""
POSITION_HEADER = "offset"

_logger = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class FilesSettings:
    patterns: list[str]
    topic: str
    host: str
    dead_letters: str
    key: str | None = None
    """None: host and path, so that the lines of a file stay in order."""
    headers: tuple[Header, ...] = ()
    multiline: Any = None
    """Compiled pattern; a matching line begins an event."""
    multiline_timeout: float = 5.0
    max_line_bytes: int = 1024 * 1024
    compression: str = "none"


class FilesSource:
    """Reads about `room` bytes per call, rotating the file it starts with."""

    kind: ClassVar[str] = "files"

    def __init__(
        self, name: str, settings: FilesSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self.settings = settings
        self.too_long = 0
        self.damaged = 0
        self.tracker = Tracker(settings.patterns, clock)
        self._clock = clock
        self._next_poll = 0.0
        self._first = 0  # index of the file to read first in the next call
        self._topics: BatchTopics | None = None
        self._encoders: dict[str, LineEncoder] = {}

    @property
    def topics(self) -> list[str]:
        return [self.settings.topic, self.settings.dead_letters]

    def begin(self, positions: Mapping[str, bytes], topics: BatchTopics) -> None:
        """Resume from the stored positions."""
        self._topics = topics
        decode = msgspec.json.Decoder(FilePosition).decode
        self.tracker.restore({key: decode(value) for key, value in positions.items()})
        self._next_poll = 0.0

    def close(self) -> None:
        self.tracker.close()

    def behind(self) -> tuple[int, int]:
        """Return (bytes read, total bytes on disk) of the open files."""
        files = [(file.contents, file.position.offset) for file in self.tracker.files]
        read = sum(contents.consumed(offset) for contents, offset in files if contents)
        return read, sum(contents.size for contents, _ in files if contents)

    def observe(self) -> SourceStatus:
        read, there = self.behind()
        counts = {
            "files": sum(1 for _ in self.tracker.files),
            "dead_letters": self.too_long,
            "truncations": self.tracker.truncated,
            "held": len(self.tracker.held),
            "errors": self.damaged,
        }
        return SourceStatus(max(0, there - read), counts)

    def collect(self, room: int) -> Collected:
        collected = Collected()
        if self._clock() >= self._next_poll:
            self._next_poll = self._clock() + POLL_SECONDS
            self._store(collected, self.tracker.poll())
            collected.positions.update(dict.fromkeys(self.tracker.take_forgotten()))
        files = list(self.tracker.files)
        older = _older_of_the_same_name(files)
        for index in range(len(files)):
            if collected.size >= room:
                self._first = (self._first + index) % len(files)
                break
            file = files[(self._first + index) % len(files)]
            if not any(self._has_more(other, other.position.offset) for other in older.get(file.key, ())):
                self._read_all(file, collected, room)
        return collected

    def _read_all(self, file: TrackedFile, collected: Collected, room: int) -> None:
        if file.damaged == file.changed:
            return
        while collected.size < room:
            before = file.position
            try:
                self._read(file, collected)
            except UnfinishedError as error:
                self.damaged += 1
                file.damaged = file.changed  # skip it until it changes
                _logger.warning(
                    "%s is damaged or incomplete; skipping it until it changes: %s", before.path, error
                )
                return
            if file.contents is None or file.position == before:
                collected.unfinished |= file.scanned > 0 and self._has_more(file, file.scanned)
                return
            self._store(collected, [file])

    def _has_more(self, file: TrackedFile, offset: int) -> bool:
        if file.contents is None:
            return False
        try:
            return bool(file.contents.read(offset, 1))
        except UnfinishedError:
            return False

    def _store(self, collected: Collected, files: list[TrackedFile]) -> None:
        for file in files:
            collected.positions[file.key] = msgspec.json.encode(file.position)

    def _read(self, file: TrackedFile, collected: Collected) -> None:
        """Read one piece, emit its events as batches and advance the position past them."""
        contents, position = file.contents, file.position
        assert contents is not None
        if file.scanned:
            self._skip(file, collected)
            return
        limit = self._limit()
        length = max(PIECE, limit + 2)
        data = contents.read(position.offset, length)
        if not data:
            return
        if not position.offset and not is_same_head(data, position):
            self.tracker.lose(file)  # rewritten since it was opened
            return
        at_end = len(data) < length
        events = self._events(file, data, at_end=at_end)
        if events.end == position.offset:
            if not at_end:
                self._give_up(file, data, collected)
            return
        moved = moved_to(position, contents, events.end, data, position.offset)
        if not contents.compressed and not (
            contents.size >= events.end and (not position.offset or continues(contents, position))
        ):
            self.tracker.lose(file)  # truncated during the read
            return
        self._emit(file, events, limit, collected)
        file.position = moved

    def _events(self, file: TrackedFile, data: bytes, *, at_end: bool) -> Events:
        assert file.contents is not None
        idle = self._clock() - file.grown_at
        ended = at_end and (
            file.contents.compressed or ((file.replaced or not file.listed) and idle >= SETTLED_SECONDS)
        )
        lines = split_lines(data, file.position.offset, final=ended)
        if self.settings.multiline is None or not lines.values:
            return lines
        silent = at_end and idle >= self.settings.multiline_timeout
        return join_lines(lines, self.settings.multiline, final=ended or silent)

    def _limit(self) -> int:
        """Return the maximum line length such that a batch with one line fits the topic's limit."""
        assert self._topics is not None
        return min(self.settings.max_line_bytes, self._topics.max_bytes(self.settings.topic) - 8192)

    def _emit(self, file: TrackedFile, events: Events, limit: int, collected: Collected) -> None:
        fitting, too_long = separate_too_long(events, limit)
        for offset, value in too_long:
            self._dead_letter(file, offset, len(value), value[:SHOWN_OF_TOO_LONG], collected)
        if not fitting.values:
            return
        assert self._topics is not None
        key = self._key(file.position.path)
        partition = self._partition(self.settings.topic, key)
        encoder = self._encoder(file.position.path, key)
        maximum = self._topics.max_bytes(self.settings.topic) - 4096
        now = int(time.time() * 1000)
        for batch in encoder.batches(partition, fitting.values, fitting.offsets, now, min(maximum, PIECE)):
            collected.batches.append(batch)
            collected.encoded += len(batch.data)
        collected.records += len(fitting.values)
        collected.bytes += events.end - file.position.offset

    def _give_up(self, file: TrackedFile, data: bytes, collected: Collected) -> None:
        """Dead-letter a line or multiline event that is too long, or start searching for its end."""
        assert file.contents is not None
        last = data.rfind(NEWLINE)
        if last < 0:
            file.scanned = file.position.offset + len(data)
            self._skip(file, collected)
            return
        self._dead_letter(file, file.position.offset, last, data[:SHOWN_OF_TOO_LONG], collected)
        begin = file.position.offset
        file.position = moved_to(file.position, file.contents, begin + last + 1, data, begin)

    def _skip(self, file: TrackedFile, collected: Collected) -> None:
        """Search for the end of an oversized line without buffering it; bounded, so that other files are read too."""
        contents, begin = file.contents, file.position.offset
        assert contents is not None
        for _ in range(MAX_SKIPPED // PIECE):
            data = contents.read(file.scanned, PIECE)
            if not data:
                return
            newline = data.find(NEWLINE)
            if newline >= 0:
                end = file.scanned + newline
                shown = contents.read(begin, SHOWN_OF_TOO_LONG) if not contents.compressed else b""
                self._dead_letter(file, begin, end - begin, shown, collected)
                file.position = moved_to(file.position, contents, end + 1, data, file.scanned)
                file.scanned = 0
                return
            file.scanned += len(data)

    def _dead_letter(
        self, file: TrackedFile, offset: int, length: int, shown: bytes, collected: Collected
    ) -> None:
        path, topic = file.position.path, self.settings.dead_letters
        key = self._key(path)
        reason = (
            f"a line of {length} bytes exceeds the limit of max.line.bytes or of the topic ({self._limit()})"
        )
        headers = (
            *self._headers(path),
            (POSITION_HEADER, b"%d" % offset),
            ("length", b"%d" % length),
            (REASON_HEADER, reason.encode()),
        )
        record = Record(0, int(time.time() * 1000), key, shown, headers)
        collected.batches.append(RecordBatch(self._partition(topic, key), [record]))
        collected.records += 1
        collected.bytes += len(shown)
        self.too_long += 1
        _logger.warning("%s: %s; its first bytes are in topic %s", path, reason, topic)

    def _partition(self, topic: str, key: bytes) -> TopicPartition:
        assert self._topics is not None
        return TopicPartition(topic, partition_for_key(key, self._topics.partitions(topic)))

    def _key(self, path: str) -> bytes:
        text = self.settings.key if self.settings.key is not None else f"{self.settings.host}:{path}"
        return os.fsencode(text)

    def _headers(self, path: str) -> tuple[Header, ...]:
        host = self.settings.host.encode()
        return (*self.settings.headers, ("host", host), ("path", os.fsencode(path)))

    def _encoder(self, path: str, key: bytes) -> LineEncoder:
        found = self._encoders.get(path)
        if found is None:
            codec = CODEC_BY_NAME[self.settings.compression]
            found = LineEncoder(key, self._headers(path), POSITION_HEADER, codec=codec)
            self._encoders[path] = found
        return found


def _older_of_the_same_name(files: list[TrackedFile]) -> dict[str, list[TrackedFile]]:
    """Return, by key, the rotated files to read before a file of the same path: keeps lines in order."""
    seen: dict[str, list[TrackedFile]] = defaultdict(list)
    older: dict[str, list[TrackedFile]] = {}
    for file in files:
        same = seen[file.position.path]
        if same:
            older[file.key] = list(same)
        same.append(file)
    return older
