"""Many logs in several folders: loading, creation, deletion, consistency."""

import errno
from pathlib import Path

import pytest

from barnabas.common.clock import ManualClock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import LocalFileSystem
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log.dirs.manager import LogManager
from barnabas.log.dirs.state import FolderInUseError
from barnabas.log.recovery.verification import ShutdownKind
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import PARTITION, TOPIC_ID, append, batch, get, loaded, managed, read_all

CLUSTER = "cluster-0123456789abcd"


def expect_all(partition: TopicPartition, topic_id: Uuid | None) -> LogConfig | None:
    return LogConfig()


def expect_none(partition: TopicPartition, topic_id: Uuid | None) -> LogConfig | None:
    return None


def manager(*folders: Path, boot: str = "boot-1", clock: ManualClock | None = None) -> LogManager:
    config = BrokerConfig.load({"log.dirs": ",".join(map(str, folders)), "barnabas.disk.reserve.bytes": "0"})
    made = LogManager(
        LocalFileSystem(), map(str, folders), clock or ManualClock(), config, boot_id=lambda: boot
    )
    made.lock()
    made.claim(CLUSTER, 1)
    return made


def test_a_log_is_loaded_after_a_clean_stop(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.load(expect_all)
    append(logs.create(PARTITION, TOPIC_ID, LogConfig()), batch(b"a", b"b"))
    logs.close()

    again = manager(tmp_path)
    report = again.load(expect_all)
    log = again.get(PARTITION)
    assert log is not None
    assert read_all(log) == [(0, b"a"), (1, b"b")]
    assert (log.recovery_point, log.high_watermark, log.topic_id) == (2, 2, TOPIC_ID)
    assert report.stops == {str(tmp_path): ShutdownKind.CLEAN}
    assert not report.recovered
    again.close()


def test_a_cut_below_the_log_start_leaves_nothing_that_a_kill_would_bring_back() -> None:
    """A log start is checkpointed late, and a kill loses it: deleted and truncated records must be removed from the
    file."""
    fs = FaultyFileSystem()
    logs, _ = loaded(fs)
    logs.loss_is_reported()
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    for number in range(10):
        append(log, batch(b"old-%d" % number), epoch=3)
    log.advance_log_start(8)
    log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (5, 5, ())
    append(log, batch(b"new"), epoch=4)
    logs.close(clean=False)
    again = get(loaded(fs)[0])
    assert read_all(again) == [(5, b"new")]
    assert again.epochs.entries == ((4, 5),)


@pytest.mark.parametrize(
    ("boot", "stop"), [("boot-1", ShutdownKind.KILLED), ("boot-2", ShutdownKind.CRASHED)]
)
def test_boot_id_distinguishes_a_kill_from_a_crash_without_the_marker(
    tmp_path: Path, boot: str, stop: ShutdownKind
) -> None:
    logs = manager(tmp_path)
    logs.load(expect_all)
    append(logs.create(PARTITION, TOPIC_ID, LogConfig()), batch(b"a"))
    logs.loss_is_reported()
    logs.close(clean=False)

    again = manager(tmp_path, boot=boot)
    report = again.load(expect_all)
    assert report.stops == {str(tmp_path): stop}
    assert report.recovered[PARTITION].scanned_bytes > 0
    log = again.get(PARTITION)
    assert log is not None
    assert read_all(log) == [(0, b"a")]
    again.close()


def test_crash_is_detected_again_until_the_controller_knows_it(tmp_path: Path) -> None:
    """Killed before it reported a power failure, a broker must not start as if it had only been killed."""
    first = manager(tmp_path, boot="boot-1")
    first.load(expect_all)
    first.loss_is_reported()
    first.close(clean=False)
    for _ in range(2):
        again = manager(tmp_path, boot="boot-2")
        assert again.load(expect_all).stops == {str(tmp_path): ShutdownKind.CRASHED}
        again.close(clean=False)
    again = manager(tmp_path, boot="boot-2")
    again.load(expect_all)
    again.loss_is_reported()
    again.close(clean=False)
    assert manager(tmp_path, boot="boot-2").load(expect_all).stops == {str(tmp_path): ShutdownKind.KILLED}


def test_new_partitions_go_to_the_folder_with_the_fewest(tmp_path: Path) -> None:
    logs = manager(tmp_path / "a", tmp_path / "b")
    logs.load(expect_all)
    for index in range(4):
        logs.create(TopicPartition("orders", index), TOPIC_ID, LogConfig())
    assert [len(logs.in_folder(folder)) for folder in logs.folders] == [2, 2]
    logs.close()


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    with pytest.raises(FolderInUseError, match="another broker is using"):
        manager(tmp_path)
    logs.close()
    manager(tmp_path).close()


def test_a_folder_of_another_node_is_refused(tmp_path: Path) -> None:
    manager(tmp_path).close()
    logs = LogManager(LocalFileSystem(), [str(tmp_path)], ManualClock(), BrokerConfig.load({}))
    with pytest.raises(KafkaError, match="belongs to node 1"):
        logs.claim(CLUSTER, 2)


def test_a_stray_folder_is_renamed_and_kept(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.load(expect_all)
    append(logs.create(PARTITION, TOPIC_ID, LogConfig()), batch(b"a"))
    logs.close()
    again = manager(tmp_path)
    report = again.load(expect_none)
    assert again.get(PARTITION) is None
    assert len(report.strays) == 1
    stray = Path(report.strays[0])
    assert stray.name.startswith("orders-0.")
    assert stray.name.endswith("-stray")
    assert (stray / "00000000000000000000.log").stat().st_size > 0
    again.close()


def test_a_deleted_partition_is_removed_immediately_and_its_files_later(tmp_path: Path) -> None:
    clock = ManualClock()
    logs = manager(tmp_path, clock=clock)
    logs.load(expect_all)
    append(logs.create(PARTITION, TOPIC_ID, LogConfig(file_delete_delay_ms=5000)), batch(b"a"))
    logs.delete(PARTITION)
    assert logs.get(PARTITION) is None
    assert not (tmp_path / "orders-0").exists()
    assert [path.name.split(".")[0] for path in tmp_path.glob("*-delete")] == ["orders-0"]
    clock.advance(4999)
    logs.housekeeping(clock.now_ms())
    assert list(tmp_path.glob("*-delete"))
    clock.advance(1)
    logs.housekeeping(clock.now_ms())
    assert not list(tmp_path.glob("*-delete"))
    logs.close()


def test_a_new_topic_of_the_same_name_starts_empty(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.load(expect_all)
    append(logs.create(PARTITION, TOPIC_ID, LogConfig()), batch(b"a"))
    logs.checkpoint()
    logs.delete(PARTITION)
    log = logs.create(PARTITION, bytes(16)[:15] + b"\x07", LogConfig())
    assert (log.log_end_offset, log.recovery_point) == (0, 0)
    logs.close(clean=False)
    again = manager(tmp_path)
    assert not again.load(expect_all).damaged
    again.close()


def test_a_log_of_another_topic_id_is_not_handed_out(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.load(expect_all)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    assert logs.create(PARTITION, TOPIC_ID, LogConfig()) is log
    with pytest.raises(KafkaError) as refusal:
        logs.create(PARTITION, bytes(15) + b"\x07", LogConfig())
    assert refusal.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    logs.close()


def test_a_partition_in_two_log_dirs_stops_the_start(tmp_path: Path) -> None:
    for name in ("a", "b"):
        logs = manager(tmp_path / name)
        logs.load(expect_all)
        logs.create(PARTITION, TOPIC_ID, LogConfig())
        logs.close()
    both = manager(tmp_path / "a", tmp_path / "b")
    with pytest.raises(KafkaError, match="move the wrong one elsewhere"):
        both.load(expect_all)


def test_partition_possibly_on_an_offline_disk_is_not_created(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    config = BrokerConfig.load({"log.dirs": "/a,/b", "barnabas.disk.reserve.bytes": "0"})
    logs = LogManager(fs, ["/a", "/b"], ManualClock(), config)
    fs.fail_at(1, OSError(errno.EIO, "broken"), "make_folder")
    logs.lock()
    logs.claim(CLUSTER, 1)
    logs.load(expect_all)
    assert list(logs.offline_dirs) == ["/a"]
    with pytest.raises(KafkaError, match="may be in a log dir that is offline: /a"):
        logs.create(PARTITION, TOPIC_ID, LogConfig())
    assert logs.create(PARTITION, TOPIC_ID, LogConfig(), is_new=True).folder == "/b/orders-0"


def test_a_checkpoint_for_which_there_is_no_room_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    logs = manager(tmp_path, clock=clock)
    logs.load(expect_all)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    append(log, batch(b"x"))
    log.flush()
    logs.housekeeping(clock.now_ms())

    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(logs.fs, "write_atomic", full)
        clock.advance(60_000)
        logs.housekeeping(clock.now_ms())
    assert "free some space" in caplog.text
    assert logs.offline_dirs == {}
    append(log, batch(b"y"))
    clock.advance(60_000)
    logs.housekeeping(clock.now_ms())
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
    logs.close()


def test_housekeeping_applies_retention_and_notes_offsets_when_it_is_time(tmp_path: Path) -> None:
    clock = ManualClock()
    config = LogConfig(segment_bytes=200, retention_ms=1000, file_delete_delay_ms=0)
    logs = manager(tmp_path, clock=clock)
    logs.load(lambda partition, topic_id: config)
    log = logs.create(PARTITION, TOPIC_ID, config)
    for _ in range(6):
        append(log, batch(b"x" * 50, timestamp=clock.now_ms()), now_ms=clock.now_ms())
    assert logs.housekeeping(clock.now_ms()) == [log], "sealed segments want to be flushed"
    log.flush()
    clock.advance(5000)
    logs.housekeeping(clock.now_ms())
    noted = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert noted == "0\n1\norders 0 6\n"
    clock.advance(300_000)
    logs.housekeeping(clock.now_ms())
    assert (log.log_start_offset, len(log.segments)) == (6, 1)
    logs.housekeeping(clock.now_ms())
    assert not list((tmp_path / "orders-0").glob("*.deleted"))
    logs.close()


def test_deleting_many_partitions_does_not_wait_for_the_disk() -> None:
    disk = FaultyFileSystem()
    logs = managed(disk)
    partitions = [TopicPartition("orders", index) for index in range(50)]
    for tp in partitions:
        append(logs.create(tp, TOPIC_ID, LogConfig()), batch(b"a"))
    disk.fail_at(1, OSError(errno.EIO, "a sync on the event loop"), "sync", "sync_folder")
    for tp in partitions:
        logs.delete(tp)
    assert len(logs) == 0


def test_a_new_partition_does_not_inherit_the_recovery_point_of_a_deleted_one() -> None:
    disk = FaultyFileSystem()
    logs = managed(disk)
    old = logs.create(PARTITION, TOPIC_ID, LogConfig())
    append(old, batch(b"a", b"b", b"c"))
    old.flush()
    logs.checkpoint()
    logs.delete(PARTITION)
    new = logs.create(PARTITION, bytes(16), LogConfig())
    append(new, batch(b"d"))
    new.flush()
    again, report = loaded(disk.crash(), boot="boot-2")
    assert not report.damaged
    assert read_all(get(again)) == [(0, b"d")]


def test_logs_that_are_cut_together_are_noted_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A broker that led a thousand partitions may have to truncate them all when it returns."""
    logs = manager(tmp_path)
    logs.load(expect_all)
    many = [logs.create(TopicPartition("orders", index), TOPIC_ID, LogConfig()) for index in range(20)]
    for log in many:
        for number in range(4):
            append(log, batch(str(number).encode()))
        log.flush()
    logs.checkpoint()
    written: list[str] = []
    write = LocalFileSystem.write_atomic

    def noted(self: LocalFileSystem, path: str, data: bytes, *, sync: bool = True) -> None:
        written.append(Path(path).name)
        write(self, path, data, sync=sync)

    monkeypatch.setattr(LocalFileSystem, "write_atomic", noted)
    for log in many:
        log.offsets.recovery_point = 2
    for log in many:
        log.truncate_to(2)
    assert written.count("recovery-point-offset-checkpoint") == 1
    for log in many:
        log.truncate_to(1)  # unplanned: each must be recorded before it is truncated
    assert written.count("recovery-point-offset-checkpoint") == 21
    logs.close(clean=False)
