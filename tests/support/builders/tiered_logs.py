"""A tiered log on an in-memory file system, with a remote part in memory."""

from collections.abc import Iterator

from barnabas.config.topic import LogConfig
from barnabas.log.dirs.manager import LogManager
from barnabas.log.log import Log
from barnabas.log.tiering.remote_segments import RemoteSegment
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import NOW, PARTITION, TOPIC_ID, append, loaded, produced

DAY_MS = 24 * 3600 * 1000
TIERED = LogConfig(
    segment_bytes=500,
    index_interval_bytes=100,
    file_delete_delay_ms=0,
    remote_storage_enable=True,
    retention_ms=-1,
    local_retention_ms=DAY_MS,
)
LATER = NOW + 2 * DAY_MS


class Remote:
    """The remote segments, as a copier would list them."""

    def __init__(self) -> None:
        self.segments: list[RemoteSegment] = []
        self.is_known = True

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def end(self) -> int:
        return self.segments[-1].end if self.segments else 0

    def oldest(self) -> Iterator[RemoteSegment]:
        return iter(self.segments)

    def copy(self, log: Log, count: int = 1 << 30) -> None:
        """Copy the next sealed segments, and notify the log."""
        following = log.segments[1:]
        for segment, after in list(zip(log.segments, following, strict=False)):
            if segment.base_offset >= self.end and count:
                timestamp = segment.largest_timestamp[0]
                copied = RemoteSegment(segment.base_offset, after.base_offset, segment.size, timestamp)
                self.segments.append(copied)
                count -= 1
        log.note_tiered(self.end)


class TieredScene:
    """Records 0 to 17 in segments of 6, each in its own batch; epochs 1 from 0 on, 2 from 6 on."""

    def __init__(self, config: LogConfig = TIERED) -> None:
        self.fs = FaultyFileSystem()
        self.config = config
        self.logs, _ = loaded(self.fs, config)
        self.log = self.logs.create(PARTITION, TOPIC_ID, config)
        self.remote = Remote()
        for _ in range(18):
            self.add()
        self.save()

    def add(self) -> None:
        offset = self.log.log_end_offset
        epoch = 1 if offset < 6 else 2
        append(self.log, produced(7, 0, offset, b"value-%d" % offset, timestamp=NOW + offset), epoch=epoch)

    def save(self) -> None:
        self.log.flush()
        self.logs.checkpoint()

    def restart(self, fs: FaultyFileSystem, boot: str = "boot-2") -> tuple[LogManager, Log]:
        logs, report = loaded(fs, self.config, boot=boot)
        assert not report.damaged, report.damaged
        log = logs.get(PARTITION)
        assert log is not None
        return logs, log
