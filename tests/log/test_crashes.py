"""A power failure at every step of every operation; the next start finds a valid log."""

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.config.topic import LogConfig
from barnabas.log.dirs.manager import LogManager
from barnabas.log.failures import DiskFull
from barnabas.log.log import Log
from barnabas.testing.files import FaultyFileSystem, PowerLost
from tests.support.builders.logs import (
    PARTITION,
    TOPIC_ID,
    append,
    batch,
    end_transaction,
    get,
    loaded,
    marker,
    produced,
    read_all,
)

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100, retention_bytes=1200, file_delete_delay_ms=0)
OTHER = TopicPartition("other", 0)


class Scene:
    """A partition of several segments, partly flushed, with its invariants after a crash."""

    def __init__(self) -> None:
        self.fs = FaultyFileSystem()
        self.logs, _ = loaded(self.fs, SMALL)
        self.log = self.logs.create(PARTITION, TOPIC_ID, SMALL)
        self.values: list[bytes] = []
        self.flushed = 0
        self.may_end_at = 1 << 60  # a truncation may or may not have happened
        self.may_start_at = 0
        self.may_be_gone = False
        for _ in range(12):
            self.add()
        self.flush()
        for _ in range(3):
            self.add()

    def add(self) -> None:
        value = f"value-{self.log.log_end_offset}".encode()
        append(self.log, produced(7, 0, self.log.log_end_offset, value))
        self.values.append(value)

    def flush(self) -> None:
        end = self.log.log_end_offset
        self.log.flush()
        self.logs.checkpoint()
        self.flushed = end


def roll(scene: Scene) -> None:
    for _ in range(8):
        scene.add()


def flush(scene: Scene) -> None:
    scene.add()
    scene.flush()
    scene.add()


def checkpoint(scene: Scene) -> None:
    scene.log.flush()
    scene.logs.checkpoint()


def retention(scene: Scene) -> None:
    scene.may_start_at = 1 << 60
    scene.log.delete_old_segments(scene.logs.clock.now_ms())
    scene.logs.housekeeping(scene.logs.clock.now_ms())
    scene.logs.checkpoint()


def delete_records(scene: Scene) -> None:
    scene.may_start_at = 8
    scene.log.advance_log_start(8)
    scene.log.delete_old_segments(scene.logs.clock.now_ms())
    scene.logs.checkpoint()


def truncate(scene: Scene) -> None:
    scene.may_end_at = 4
    scene.log.truncate_to(4)
    del scene.values[4:]
    scene.flushed = min(scene.flushed, 4)
    scene.may_end_at = 1 << 60
    for _ in range(3):
        scene.add()


def truncate_fully(scene: Scene) -> None:
    scene.may_end_at = 0
    scene.may_start_at = 1 << 60
    scene.log.truncate_fully_and_start_at(100)
    scene.logs.checkpoint()


def create(scene: Scene) -> None:
    log = scene.logs.create(OTHER, TOPIC_ID, SMALL)
    append(log, batch(b"x"))
    log.flush()
    scene.logs.checkpoint()


def delete(scene: Scene) -> None:
    scene.may_be_gone = True
    scene.logs.delete(PARTITION)
    scene.logs.housekeeping(scene.logs.clock.now_ms())


def delete_and_create_again(scene: Scene) -> None:
    delete(scene)
    scene.values, scene.flushed = [], 0
    scene.log = scene.logs.create(PARTITION, bytes(15) + b"\x02", SMALL)
    scene.add()
    scene.flush()
    scene.may_be_gone = False


def transactions(scene: Scene) -> None:
    append(scene.log, produced(9, 0, 0, b"aborted", transactional=True))
    end_transaction(scene.log, marker(9, 0, committed=False))
    scene.log.flush()


def close(scene: Scene) -> None:
    scene.logs.close()


SCENARIOS: list[Callable[[Scene], None]] = [
    roll,
    flush,
    checkpoint,
    retention,
    delete_records,
    truncate,
    truncate_fully,
    create,
    delete,
    delete_and_create_again,
    transactions,
    close,
]
WAYS = ["killed", "all lost", "torn 1", "torn 2", "torn 3"]


def crash(fs: FaultyFileSystem, way: str) -> FaultyFileSystem:
    if way == "killed":
        return fs.crash(lose_unsynced=False)
    return fs.crash(torn=None if way == "all lost" else random.Random(way))


def steps_of(scenario: Callable[[Scene], None]) -> int:
    scene = Scene()
    before = len(scene.fs.operations)
    scenario(scene)
    changes = [kind for kind in scene.fs.operations[before:] if kind not in ("read", "open")]
    return len(changes)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_power_may_be_lost_at_every_step(scenario: Callable[[Scene], None], way: str) -> None:
    for step in range(1, steps_of(scenario) + 2):
        scene = Scene()
        scene.fs.lose_power_at(step)
        with suppress(PowerLost):
            scenario(scene)
        after = crash(scene.fs, way)
        check(scene, after, "boot-1" if way == "killed" else "boot-2", f"{scenario.__name__} {step} {way}")


def check(scene: Scene, fs: FaultyFileSystem, boot: str, where: str) -> None:
    logs, report = loaded(fs, SMALL, boot=boot)
    assert not report.damaged, (where, report.damaged)
    log = logs.get(PARTITION)
    if log is None:
        assert scene.may_be_gone or not scene.flushed, where
        return
    before = contents(log)
    assert_sound(scene, log, where)
    assert_goes_on(logs, log, where)
    logs.close()
    logs, report = loaded(fs, SMALL, boot=boot)
    assert not report.recovered, where
    assert contents(get(logs))[: len(before)] == before, where


def contents(log: Log) -> list[tuple[int, bytes | None]]:
    return read_all(log)


def assert_sound(scene: Scene, log: Log, where: str) -> None:
    found = [(offset, value) for offset, value in read_all(log) if value != b"aborted"]
    for offset, value in found:
        assert offset < 100, where
        assert value == f"value-{offset}".encode(), where
    if not scene.may_be_gone:
        start = min(scene.may_start_at, log.log_start_offset)
        wanted = set(range(start, min(scene.flushed, scene.may_end_at)))
        assert log.log_start_offset <= max(scene.may_start_at, 0), where
        missing = wanted - {offset for offset, _ in found}
        assert scene.may_start_at > 100 or not missing, (where, missing)


def assert_goes_on(logs: LogManager, log: Log, where: str) -> None:
    """Appends, duplicates and lookups work normally."""
    end = log.log_end_offset
    assert append(log, batch(b"next")).first_offset == end, where
    producer = log.producers.get(7)
    if producer is not None and producer.batches:
        again = produced(7, 0, producer.last_sequence, f"value-{producer.last_offset}".encode())
        assert append(log, again).duplicate, where
    log.flush()
    assert log.recovery_point == end + 1, where


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_an_input_output_error_at_any_step_takes_the_dir_offline_and_loses_nothing(
    scenario: Callable[[Scene], None],
) -> None:
    for step in range(1, steps_of(scenario) + 1):
        scene = Scene()
        scene.fs.fail_at(step, OSError(5, "Input/output error"))
        try:
            scenario(scene)
        except KafkaError:
            assert scene.logs.offline_dirs, f"{scenario.__name__} {step}"
            with pytest.raises(KafkaError):
                append(scene.log, batch(b"refused"))
        scene.fs.heal()
        check(scene, scene.fs.crash(), "boot-2", f"{scenario.__name__} {step}")


@pytest.mark.parametrize(
    "scenario", [roll, flush, create, transactions], ids=lambda scenario: scenario.__name__
)
def test_a_full_disk_is_survived(scenario: Callable[[Scene], None]) -> None:
    needed = _space_needed(scenario)
    for space in range(0, needed, 37):
        scene = Scene()
        scene.fs.space = space
        with suppress(DiskFull):
            scenario(scene)
        assert not scene.logs.offline_dirs
        assert [value for _, value in read_all(scene.log)][: len(scene.values)] == scene.values
        scene.fs.space = None
        append(scene.log, batch(b"room again"))
        assert read_all(scene.log)[-1][1] == b"room again"


def _space_needed(scenario: Callable[[Scene], None]) -> int:
    scene = Scene()
    scene.fs.space = 1 << 30
    scenario(scene)
    return (1 << 30) - scene.fs.space
