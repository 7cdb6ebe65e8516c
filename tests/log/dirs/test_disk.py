"""Free space checks of a log dir, and their log lines."""

import contextlib

import pytest

from barnabas.common.clock import ManualClock
from barnabas.common.errors import KafkaError
from barnabas.config.topic import LogConfig
from barnabas.log.dirs.disk import Disk
from barnabas.log.dirs.disk_health import AUTOMATIC_RESERVE, CHECK_EVERY_MS
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import NOW, PARTITION, TOPIC_ID, append, batch, managed


def test_full_disk_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    files = FaultyFileSystem(space=100)
    files.make_folders("/data")
    disk = Disk(files, "/data", reserve_bytes=500)
    for second in range(3):
        with pytest.raises(KafkaError, match="free some space"):
            disk.check(second * CHECK_EVERY_MS)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    files.give_space(1000)
    disk.check(10 * CHECK_EVERY_MS)
    disk.check(20 * CHECK_EVERY_MS)
    assert [record.message for record in caplog.records][1:] == ["/data has enough free space again"]


def test_a_refusal_does_not_keep_the_frames_of_those_before() -> None:
    """An error that is raised again has the frames of all its tracebacks, with the batches in them."""
    files = FaultyFileSystem(space=100)
    files.make_folders("/data")
    disk = Disk(files, "/data", reserve_bytes=500)
    lengths = set()
    for _ in range(4):
        with pytest.raises(KafkaError) as refused:
            disk.check(1)
        lengths.add(len(refused.traceback))
    assert len(lengths) == 1


def test_a_clock_that_is_set_back_does_not_keep_an_append_from_looking_at_the_disk() -> None:
    disk, clock = FaultyFileSystem(), ManualClock(NOW)
    logs = managed(disk, clock=clock, settings={"barnabas.disk.reserve.bytes": "500"})
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    append(log, batch(b"a"))
    disk.space = 100
    set_back = NOW - 3 * 3_600_000
    append(log, batch(b"a", timestamp=1), set_back)
    logs.housekeeping(set_back)
    with pytest.raises(KafkaError, match="free some space"):
        append(log, batch(b"a", timestamp=1), set_back)


def test_periodic_tasks_do_not_add_checks_to_appends() -> None:
    files = FaultyFileSystem()
    files.make_folders("/data")
    disk = Disk(files, "/data", reserve_bytes=1)
    disk.check(NOW)
    before = disk.check_at_ms
    disk.notice(NOW + 1)
    assert disk.check_at_ms == before > NOW


@pytest.mark.parametrize(("total", "reserve"), [(1 << 40, 128 << 20), (1 << 30, (1 << 30) // 20)])
def test_the_automatic_reserve_scales_with_small_volumes(
    total: int, reserve: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FaultyFileSystem()
    files.make_folders("/data")
    for free in (reserve, reserve - 1):
        monkeypatch.setattr(files, "capacity", lambda _, free=free: (total, free))
        disk = Disk(files, "/data", AUTOMATIC_RESERVE)
        with (
            contextlib.nullcontext()
            if free == reserve
            else pytest.raises(KafkaError, match="free some space")
        ):
            disk.check(NOW)


def test_a_start_on_a_nearly_full_disk_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFileSystem(space=900)
    managed(files, settings={"barnabas.disk.reserve.bytes": "500"}).load(lambda partition, topic_id: None)
    assert "appends are refused" in caplog.text
