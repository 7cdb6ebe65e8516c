"""A replica moves to another log dir without loss or change, with interruptions at every step."""

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from barnabas.common.clock import ManualClock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSlice
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log import names
from barnabas.log.dirs.manager import LogManager
from barnabas.log.dirs.move import LogDirMove, MoveState
from barnabas.log.log import Log
from barnabas.testing.files import FaultyFileSystem, PowerLost
from tests.support.builders.logs import NOW, PARTITION, TOPIC_ID, append, batch, get, produced, read_all

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100, file_delete_delay_ms=0)
DIRS = ["/a", "/b", "/c"]


def started(fs: FaultyFileSystem, boot: str = "boot-1") -> LogManager:
    config = BrokerConfig.load({"log.dirs": ",".join(DIRS), "barnabas.disk.reserve.bytes": "0"})
    logs = LogManager(fs, DIRS, ManualClock(NOW), config, boot_id=lambda: boot)
    logs.lock()
    logs.claim("cluster-0123456789abcd", 1)
    logs.load(lambda partition, topic_id: SMALL)
    return logs


def copy_all(move: LogDirMove) -> None:
    move.align()
    while move.lag:
        found = move.log.read(move.future.log_end_offset, 300, move.log.log_end_offset)
        assert isinstance(found, FileSlice)
        move.take(memoryview(found.read()), NOW)


def take_over(logs: LogManager, move: LogDirMove) -> None:
    copy_all(move)
    move.future.flush()
    logs.moves.leave_note(move)()
    assert move.may_take_over
    logs.moves.change(move)


def settle(logs: LogManager, move: LogDirMove) -> None:
    logs.moves.sync_target(move)
    logs.moves.retire_source(move)
    logs.moves.remove_note(move)
    logs.moves.end(move)


def place(logs: LogManager) -> str:
    log_dir = logs.dir_of(PARTITION)
    assert log_dir is not None
    return log_dir.folder


class Scene:
    """A partition of several segments in /a, and how much of it is on the disk."""

    def __init__(self) -> None:
        self.fs = FaultyFileSystem()
        self.logs = started(self.fs)
        self.logs.placement.prefer(PARTITION, self.logs.dirs[0])
        self.log = self.logs.create(PARTITION, TOPIC_ID, SMALL)
        self.flushed = 0
        self.add(8)
        self.flush()
        self.add(2)

    def add(self, count: int = 1, epoch: int = 0) -> None:
        for _ in range(count):
            end = self.log.log_end_offset
            append(self.log, produced(7, 0, end, f"value-{end}".encode()), epoch=epoch)

    def flush(self) -> None:
        end = self.log.log_end_offset
        self.log.flush()
        self.flushed = end

    def begin(self) -> LogDirMove:
        return self.logs.moves.begin(self.log, self.logs.dirs[1])


def whole_move(scene: Scene) -> None:
    move = scene.begin()
    copy_all(move)
    scene.logs.checkpoint()
    scene.add(2)
    scene.flush()
    take_over(scene.logs, move)
    scene.add(2)
    scene.flush()
    scene.logs.checkpoint()
    settle(scene.logs, move)
    scene.logs.housekeeping(NOW)
    scene.logs.checkpoint()
    scene.add()


def a_move_there_and_back(scene: Scene) -> None:
    move = scene.begin()
    take_over(scene.logs, move)
    settle(scene.logs, move)
    scene.add()
    back = scene.logs.moves.begin(scene.log, scene.logs.dirs[0])
    take_over(scene.logs, back)
    scene.add()
    scene.flush()
    settle(scene.logs, back)


def stopped_half_way(scene: Scene) -> None:
    move = scene.begin()
    found = scene.log.read(0, 300, scene.log.log_end_offset)
    assert isinstance(found, FileSlice)
    move.take(memoryview(found.read()), NOW)
    scene.logs.close()


SCENARIOS: list[Callable[[Scene], None]] = [whole_move, a_move_there_and_back, stopped_half_way]
WAYS = ["killed", "all lost", "torn"]


def crash(fs: FaultyFileSystem, way: str) -> FaultyFileSystem:
    if way == "killed":
        return fs.crash(lose_unsynced=False)
    return fs.crash(torn=None if way == "all lost" else random.Random(way))


def steps_of(scenario: Callable[[Scene], None]) -> int:
    scene = Scene()
    before = len(scene.fs.operations)
    scenario(scene)
    return len([kind for kind in scene.fs.operations[before:] if kind not in ("read", "open")])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_power_may_be_lost_at_every_step_of_a_move(scenario: Callable[[Scene], None], way: str) -> None:
    for step in range(1, steps_of(scenario) + 2):
        scene = Scene()
        scene.fs.lose_power_at(step)
        with suppress(PowerLost):
            scenario(scene)
        after = crash(scene.fs, way)
        check(scene, after, "boot-1" if way == "killed" else "boot-2", f"{scenario.__name__} {step} {way}")


def check(scene: Scene, fs: FaultyFileSystem, boot: str, where: str) -> None:
    """It is in one dir with all synced records; an unfinished move can be completed."""
    logs = started(fs, boot)
    assert not logs.damaged, where
    log = get(logs)
    found = read_all(log)
    assert found == [(offset, f"value-{offset}".encode()) for offset in range(len(found))], where
    assert len(found) >= scene.flushed, where
    append(log, batch(b"next"))
    for move in logs.moves:
        take_over(logs, move)
        settle(logs, move)
    assert read_all(log)[:-1] == found, where
    logs.housekeeping(NOW)
    logs.close()
    again = get(started(fs, boot))
    assert [value for _, value in read_all(again)] == [*(value for _, value in found), b"next"], where
    held = [f"{folder}/{name}" for folder in DIRS for name in fs.list(folder) if str(PARTITION) in name]
    assert [path for path in held if not path.endswith("-stray")] == [again.folder], where


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_disk_that_fails_at_any_step_loses_nothing(scenario: Callable[[Scene], None]) -> None:
    for step in range(1, steps_of(scenario) + 1):
        scene = Scene()
        scene.fs.fail_at(step, OSError(5, "Input/output error"))
        with suppress(KafkaError, OSError):
            scenario(scene)
        scene.fs.heal()
        check(scene, scene.fs.crash(), "boot-2", f"{scenario.__name__} {step}")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_log_continues_in_the_other_dir(scene: Scene) -> None:
    before = read_all(scene.log)
    move = scene.begin()
    take_over(scene.logs, move)
    settle(scene.logs, move)
    assert (place(scene.logs), scene.log.folder) == ("/b", "/b/orders-0")
    assert read_all(scene.log) == before
    again = append(scene.log, produced(7, 0, scene.log.log_end_offset - 1, before[-1][1] or b""))
    assert again.duplicate
    scene.logs.housekeeping(NOW)
    assert [name for name in scene.fs.list("/a") if "orders" in name] == []


def test_truncation_of_the_log_truncates_its_copy(scene: Scene) -> None:
    move = scene.begin()
    copy_all(move)
    scene.log.truncate_to(5)
    assert move.future.log_end_offset == 5
    scene.add(9, epoch=1)
    take_over(scene.logs, move)
    assert scene.log.epochs.entries == ((0, 0), (1, 5))
    assert [offset for offset, _ in read_all(scene.log)] == list(range(14))


def test_restarted_log_is_copied_from_its_new_start(scene: Scene) -> None:
    move = scene.begin()
    copy_all(move)
    scene.log.truncate_fully_and_start_at(3)
    scene.add(2)
    copy_all(move)
    assert (move.future.log_start_offset, move.future.log_end_offset) == (3, 5)
    scene.log.truncate_fully_and_start_at(100)
    copy_all(move)
    assert (move.future.log_start_offset, move.future.log_end_offset) == (100, 100)


def test_records_that_were_deleted_are_not_copied(scene: Scene) -> None:
    scene.log.advance_log_start(8)
    take_over(scene.logs, scene.begin())
    assert scene.log.log_start_offset == 8
    assert [offset for offset, _ in read_all(scene.log)] == [8, 9]


def test_a_log_that_starts_within_a_batch_is_copied_with_all_of_it(scene: Scene) -> None:
    append(scene.log, batch(b"x", b"y", b"z"))
    scene.log.advance_log_start(11)
    take_over(scene.logs, scene.begin())
    assert read_all(scene.log) == [(11, b"y"), (12, b"z")]


def test_a_partition_that_is_deleted_takes_its_copy_along(scene: Scene) -> None:
    move = scene.begin()
    copy_all(move)
    scene.logs.delete(PARTITION)
    scene.logs.housekeeping(NOW)
    assert move.state is MoveState.OVER
    assert [name for folder in DIRS for name in scene.fs.list(folder) if "orders" in name] == []


def test_a_partition_that_is_deleted_while_it_settles_leaves_nothing_behind(scene: Scene) -> None:
    take_over(scene.logs, scene.begin())
    scene.logs.delete(PARTITION)
    scene.logs.housekeeping(NOW)
    assert [name for folder in DIRS for name in scene.fs.list(folder) if "orders" in name] == []


def test_a_target_that_fails_leaves_the_partition_where_it_was(scene: Scene) -> None:
    move = scene.begin()
    scene.fs.fail_at(1, OSError(5, "Input/output error"), "append")
    with pytest.raises(KafkaError):
        copy_all(move)
    scene.fs.heal()
    scene.logs.moves.drop(PARTITION)
    scene.add()
    assert (place(scene.logs), list(scene.logs.offline_dirs)) == ("/a", ["/b"])


def test_a_copy_whose_partition_was_lost_stays_where_it_is(scene: Scene) -> None:
    scene.begin()
    scene.logs.close()
    scene.fs.remove_tree("/a/orders-0")
    logs = started(scene.fs)
    assert list(logs.damaged) == [PARTITION]
    assert [name.endswith(names.FUTURE_FOLDER) for name in scene.fs.list("/b") if "orders" in name] == [True]


def test_a_copy_without_its_partition_is_set_aside(scene: Scene) -> None:
    scene.begin()
    scene.logs.close()
    scene.fs.remove_tree("/a/orders-0")
    for folder in ("/a", "/b"):
        for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            scene.fs.remove(f"{folder}/{checkpoint}")  # no checkpoint has records
    logs = started(scene.fs)
    assert logs.get(PARTITION) is None
    assert [name.endswith(names.STRAY_FOLDER) for name in scene.fs.list("/b") if "orders" in name] == [True]


def test_a_copy_is_kept_while_the_disk_of_its_partition_may_come_back(scene: Scene) -> None:
    scene.begin()
    scene.logs.close()
    scene.fs.fail_at(1, OSError(5, "Input/output error"), "create")  # the lock of /a
    logs = started(scene.fs)
    assert list(logs.offline_dirs) == ["/a"]
    assert len([name for name in scene.fs.list("/b") if name.endswith(names.FUTURE_FOLDER)]) == 1


def test_new_partition_is_created_in_the_requested_dir(scene: Scene) -> None:
    other = TopicPartition("other", 3)
    scene.logs.placement.prefer(other, scene.logs.dirs[2])
    assert scene.logs.create(other, TOPIC_ID, SMALL).folder == "/c/other-3"


@pytest.mark.parametrize(
    ("path", "code"),
    [("/nowhere", ErrorCode.LOG_DIR_NOT_FOUND), ("/c", ErrorCode.INVALID_REPLICA_ASSIGNMENT)],
)
def test_unknown_or_cordoned_dir_is_rejected(scene: Scene, path: str, code: ErrorCode) -> None:
    scene.logs.use_config(BrokerConfig.load({"log.dirs": ",".join(DIRS), "cordoned.log.dirs": "/c"}))
    with pytest.raises(KafkaError) as refused:
        scene.logs.placement.dir_named(path)
    assert refused.value.code == code


def test_a_topic_with_too_long_a_name_is_refused(scene: Scene) -> None:
    log: Log = scene.logs.create(TopicPartition("x" * 230, 0), TOPIC_ID, SMALL)
    with pytest.raises(KafkaError) as refused:
        scene.logs.moves.begin(log, scene.logs.dirs[1])
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
