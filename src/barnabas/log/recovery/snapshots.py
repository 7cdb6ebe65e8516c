"""Producer snapshots: the file `<offset>.snapshot` with the producer states at that offset.

One is written when a segment is rolled, so that recovery never replays more than that segment, and one at a clean
shutdown. As in Kafka, it has only the last batch of each producer. The timestamp of an entry is used to expire idle
producers; here it is the time of the append, in files written by Kafka the client's timestamp (producers.GRACE_MS).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error

from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.log import names
from barnabas.log.producer import ProducerState, RememberedBatch
from barnabas.log.producers import ProducerStates
from barnabas.records.batch import NO_SEQUENCE

_HEAD = Struct(">hIi")  # version, CRC of everything after the CRC, number of entries
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_END = 6
_NO_OFFSET = -1

logger = safe_logger(__name__)


class ProducerSnapshotError(ValueError):
    """The file is invalid; recovery falls back to an older one and replays more of the log."""


def encode_snapshot(producers: Iterable[ProducerState]) -> bytes:
    entries = [_encode_entry(producer) for producer in producers]
    data = bytearray(_HEAD.pack(_VERSION, 0, len(entries)))
    for entry in entries:
        data += entry
    data[2:_CRC_END] = crc32c(memoryview(data)[_CRC_END:]).to_bytes(4, "big")
    return bytes(data)


def _encode_entry(producer: ProducerState) -> bytes:
    last = producer.batches[-1] if producer.batches else None
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        last.last_sequence if last else NO_SEQUENCE,
        last.last_offset if last else _NO_OFFSET,
        last.offset_delta if last else 0,
        producer.last_append_ms,
        producer.coordinator_epoch,
        _NO_OFFSET if producer.transaction_start is None else producer.transaction_start,
    )


def decode_snapshot(data: bytes, written_ms: int) -> list[ProducerState]:
    """Decode the file; timestamps of entries are capped at `written_ms`, when the file was written."""
    try:
        version, crc, count = _HEAD.unpack_from(data)
    except struct_error:
        raise ProducerSnapshotError(f"truncated to {len(data)} bytes") from None
    if version != _VERSION:
        raise ProducerSnapshotError(f"unsupported version {version}")
    if crc32c(memoryview(data)[_CRC_END:]) != crc or len(data) != _HEAD.size + count * _ENTRY.size:
        raise ProducerSnapshotError("wrong checksum or length")
    return [_decode_entry(fields, written_ms) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]


def _decode_entry(fields: tuple[int, ...], written_ms: int) -> ProducerState:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, transaction = fields
    producer = ProducerState(producer_id, epoch)
    if sequence != NO_SEQUENCE:
        producer.remember(epoch, RememberedBatch(sequence, offset, delta, timestamp), timestamp)
    producer.marker_timestamp = timestamp
    producer.last_append_ms = min(timestamp, written_ms)
    producer.coordinator_epoch = coordinator_epoch
    producer.transaction_start = None if transaction == _NO_OFFSET else transaction
    return producer


class SnapshotFiles:
    """The snapshot files of one partition, by offset."""

    __slots__ = ("_fs", "_unsynced", "folder", "offsets")

    def __init__(self, fs: FileSystem, folder: str, offsets: Iterable[int] = ()) -> None:
        self._fs = fs
        self.folder = folder
        self.offsets = sorted(offsets)
        self._unsynced: set[int] = set()

    def path(self, offset: int) -> str:
        return names.path_of(self.folder, offset, names.PRODUCER_SNAPSHOT)

    def take(self, producers: ProducerStates, offset: int) -> None:
        """Write a snapshot at the log end offset `offset`; the next flush syncs it."""
        self.put(offset, encode_snapshot(producers))

    def put(self, offset: int, data: bytes, *, sync: bool = False) -> None:
        self._fs.write_atomic(self.path(offset), data, sync=sync)
        self.note(offset)

    def note(self, offset: int) -> None:
        """Register a snapshot that was written."""
        self._unsynced.add(offset)
        if offset not in self.offsets:
            self.offsets.append(offset)
            self.offsets.sort()

    def at(self, offset: int) -> bytes:
        """Return the snapshot at `offset`; an empty one if there is none."""
        return self._fs.read_bytes(self.path(offset)) if offset in self.offsets else encode_snapshot(())

    def load_latest(self, producers: ProducerStates, upto: int) -> int:
        """Restore the newest valid snapshot at or below `upto`; return its offset, or -1 if there is none."""
        for offset in [offset for offset in reversed(self.offsets) if offset <= upto]:
            path = self.path(offset)
            try:
                producers.restore(decode_snapshot(self._fs.read_bytes(path), self._fs.modified_ms(path)))
            except ProducerSnapshotError as damage:
                logger.warning("removed the invalid producer snapshot %s: %s", path, damage)
                self._remove(offset)
            else:
                producers.known_since = offset
                return offset
        producers.clear()
        producers.known_since = 0
        return -1

    def keep_only(self, offsets: Iterable[int]) -> None:
        """Remove the snapshots at all other offsets."""
        kept = set(offsets)
        for offset in [offset for offset in self.offsets if offset not in kept]:
            self._remove(offset)

    def forget_all(self) -> list[str]:
        """Clear the list; return the paths, which the caller deletes."""
        paths = [self.path(offset) for offset in self.offsets]
        self.offsets.clear()
        self._unsynced.clear()
        return paths

    def remove_from(self, offset: int) -> None:
        """Remove the snapshots above `offset`, after a truncation."""
        self.keep_only(known for known in self.offsets if known <= offset)

    def _remove(self, offset: int) -> None:
        self._fs.remove(self.path(offset))
        self.offsets.remove(offset)
        self._unsynced.discard(offset)

    def take_unsynced(self) -> list[str]:
        """Return and clear the paths that the flush has to sync."""
        paths = [self.path(offset) for offset in self._unsynced]
        self._unsynced.clear()
        return paths
