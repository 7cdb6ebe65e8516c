"""Batches and logs for the tests of the log."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from barnabas.common.clock import ManualClock
from barnabas.common.files import FileSlice, FileSystem, LocalFileSystem, Slice
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log.dirs.disk import Disk
from barnabas.log.dirs.loading import LoadReport
from barnabas.log.dirs.manager import LogManager
from barnabas.log.dirs.placement import create_log
from barnabas.log.log import AppendResult, Log, Origin
from barnabas.log.segments.segment_file import OpenSegments
from barnabas.records.batch import BatchHeader, iterate_headers, read_header
from barnabas.records.builder import build_batch
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.records.record import Record, iterate_records

NOW = 1_700_000_000_000
TOPIC_ID: Uuid = bytes(range(16))
PARTITION = TopicPartition("orders", 0)


def batch(*values: bytes, timestamp: int = NOW, key: bytes | None = b"k", **options: Any) -> bytearray:
    records = [Record(0, timestamp, key, value) for value in values or (b"value",)]
    return build_batch(records, **options)


def produced(producer_id: int, epoch: int, sequence: int, *values: bytes, **options: Any) -> bytearray:
    """A batch of an idempotent or transactional producer."""
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **options)


def marker(
    producer_id: int, epoch: int, *, committed: bool, coordinator_epoch: int = 0, timestamp: int = NOW
) -> bytearray:
    ending = EndTransactionMarker(committed, coordinator_epoch)
    return end_transaction_marker(producer_id, epoch, ending, timestamp=timestamp)


def append(log: Log, data: bytearray, now_ms: int = NOW, epoch: int = 0) -> AppendResult:
    """Append as a client of the leader, and let the high watermark follow, as with one replica."""
    origin = Origin.TRANSACTION if read_header(data).is_transactional else Origin.CLIENT
    result = log.append_as_leader(memoryview(data), epoch, now_ms, origin=origin)
    log.advance_high_watermark(log.log_end_offset)
    return result


def end_transaction(log: Log, data: bytearray, now_ms: int = NOW) -> AppendResult:
    result = log.append_as_leader(memoryview(data), 0, now_ms, origin=Origin.COORDINATOR)
    log.advance_high_watermark(log.log_end_offset)
    return result


def new_log(
    folder: Path | str,
    config: LogConfig | None = None,
    fs: FileSystem | None = None,
    open_segments: OpenSegments | None = None,
) -> Log:
    fs = fs or LocalFileSystem()
    fs.make_folders(str(folder))
    return create_log(
        fs,
        str(folder),
        PARTITION,
        TOPIC_ID,
        config or LogConfig(),
        disk=Disk(fs, str(folder)),
        open_segments=open_segments or OpenSegments(),
        now_ms=NOW,
    )


def content(piece: Slice) -> bytes:
    return piece.read() if isinstance(piece, FileSlice) else piece


def headers(piece: Slice) -> list[BatchHeader]:
    return [header for _, header in iterate_headers(content(piece))]


def read_all(log: Log, start: int | None = None, upper: int | None = None) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record that a consumer sees; control records are left out."""
    offset = log.log_start_offset if start is None else start
    upper = log.log_end_offset if upper is None else upper
    found: list[tuple[int, bytes | None]] = []
    while data := content(log.read(offset, 1 << 20, upper)):
        for position, header in iterate_headers(data):
            found += [entry for entry in _records(data[position:], header) if entry[0] >= offset]
        offset = max(header.next_offset for _, header in iterate_headers(data))
    return found


def _records(data: bytes, header: BatchHeader) -> Iterable[tuple[int, bytes | None]]:
    if header.is_control:
        return []
    return [(record.offset, record.value) for record in iterate_records(data, header)]


def managed(
    fs: FileSystem,
    folder: str = "/data",
    *,
    boot: str = "boot-1",
    clock: ManualClock | None = None,
    settings: Mapping[str, str] | None = None,
) -> LogManager:
    """A manager of one folder, locked and claimed, with nothing loaded."""
    config = BrokerConfig.load({"log.dirs": folder, "barnabas.disk.reserve.bytes": "0", **(settings or {})})
    logs = LogManager(fs, [folder], clock or ManualClock(NOW), config, boot_id=lambda: boot)
    logs.lock()
    logs.claim("cluster-0123456789abcd", 1)
    return logs


def loaded(
    fs: FileSystem, config: LogConfig | None = None, *, boot: str = "boot-1"
) -> tuple[LogManager, LoadReport]:
    """A manager that has opened the existing logs, every partition with this config."""
    logs = managed(fs, boot=boot)
    return logs, logs.load(lambda partition, topic_id: config or LogConfig())


def get(logs: LogManager) -> Log:
    log = logs.get(PARTITION)
    assert log is not None
    return log


class HeldThread:
    """Runs nothing before it is asked to."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], None], Callable[[OSError | None], None]]] = []

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        self.jobs.append((work, done))

    def release(self) -> None:
        jobs, self.jobs = self.jobs, []
        for work, done in jobs:
            work()
            done(None)

    def close(self) -> None: ...
