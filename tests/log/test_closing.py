"""Clean shutdown: written files, and logs that need no write."""

from collections import Counter
from collections.abc import Callable

from barnabas.common.types import TopicPartition
from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import PARTITION, TOPIC_ID, append, batch, get, loaded, managed, read_all


class CountingFileSystem(FaultyFileSystem):
    """Counts the changes."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: Counter[str] = Counter()

    def before(self, kind: str, torn_write: Callable[[], None] | None = None, path: str = "") -> None:
        self.changes[kind] += kind not in ("open", "read")
        super().before(kind, torn_write, path)


def changes_of_closing(fs: CountingFileSystem, log: Log) -> int:
    fs.changes.clear()
    log.close()
    return fs.changes.total()


def test_a_log_without_records_needs_no_write_at_shutdown() -> None:
    fs = CountingFileSystem()
    log = managed(fs).create(PARTITION, TOPIC_ID, LogConfig())
    log.start_epoch(1)
    assert changes_of_closing(fs, log) == 0


def test_an_unchanged_log_needs_no_write_at_shutdown() -> None:
    fs = CountingFileSystem()
    logs = managed(fs)
    append(logs.create(PARTITION, TOPIC_ID, LogConfig()), batch(b"a"))
    logs.close()
    log = get(loaded(fs)[0])
    log.start_epoch(7)
    assert changes_of_closing(fs, log) == 0


def test_a_log_that_has_changed_survives_a_crash_after_the_stop() -> None:
    fs = CountingFileSystem()
    logs = managed(fs)
    append(logs.create(PARTITION, TOPIC_ID, LogConfig()), batch(b"a"))
    logs.close()
    logs, _ = loaded(fs)
    get(logs).start_epoch(7)
    append(get(logs), batch(b"b"), epoch=7)
    logs.close()
    logs, report = loaded(fs.crash(), boot="boot-2")
    assert read_all(get(logs)) == [(0, b"a"), (1, b"b")]
    assert get(logs).epochs.entries == ((0, 0), (7, 1))
    assert not report.recovered


def test_an_empty_log_lost_in_a_crash_is_recreated() -> None:
    fs = FaultyFileSystem()
    logs = managed(fs)
    logs.create(PARTITION, TOPIC_ID, LogConfig())
    logs.create(TopicPartition("other", 0), TOPIC_ID, LogConfig())
    logs.close()
    logs, _ = loaded(fs.crash(), boot="boot-2")
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    append(log, batch(b"a"))
    assert read_all(log) == [(0, b"a")]


def test_records_follow_in_an_empty_segment_that_was_found_without_indexes() -> None:
    fs = FaultyFileSystem()
    logs = managed(fs)
    logs.create(PARTITION, TOPIC_ID, LogConfig())
    logs.close()
    config = LogConfig(index_interval_bytes=1)
    logs, _ = loaded(fs, config)
    for number in range(20):
        append(get(logs), batch(b"%d" % number))
    logs.close()
    logs, _ = loaded(fs, config)
    assert len(read_all(get(logs), start=13)) == 7
    assert len(get(logs).active.offset_index) > 10
