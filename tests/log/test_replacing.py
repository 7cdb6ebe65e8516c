"""Replacement of a log's files in a thread: exclusive access, and a valid log after a crash."""

import asyncio
import errno
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.broker.tiering.restored_partitions import settled
from barnabas.common.clock import ManualClock
from barnabas.common.files import LocalFileSystem
from barnabas.common.threads import ThreadBackground
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log.dirs.manager import LogManager
from barnabas.log.log import Log
from barnabas.log.recovery.snapshots import encode_snapshot
from barnabas.log.replacing import LogUnsettled
from barnabas.testing.files import PowerLost
from tests.support.builders.logs import NOW, PARTITION, TOPIC_ID, HeldThread, append, batch, read_all
from tests.support.builders.tiered_logs import LATER, TIERED, TieredScene

SLOW_SECONDS = 0.1


def start_at(log: Log) -> None:
    log.start_at(20, 3, [(1, 3), (2, 6), (5, 19)], encode_snapshot(()), in_background=True)


def start_over(log: Log) -> None:
    log.truncate_fully_and_start_at(20, in_background=True)


Start = Callable[[Log], None]
STARTS = pytest.mark.parametrize("start", [start_at, start_over])


class Scene(TieredScene):
    """Offsets 0 to 17; a thread that is held."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = HeldThread()
        self.logs.use_threads(lambda name: self.thread)

    @property
    def files(self) -> set[str]:
        return {path.rpartition("/")[2] for path, _ in self.fs.files() if "/orders-0/" in path}


@STARTS
def test_a_log_is_empty_at_once_and_its_files_are_replaced_later(start: Start) -> None:
    scene = Scene()
    before = scene.files
    start(scene.log)
    assert (scene.log.offsets.local_start, scene.log.log_end_offset) == (20, 20)
    assert (scene.files, scene.log.is_settled) == (before, False)
    scene.thread.release()
    assert scene.log.is_settled
    assert [name for name in scene.files if name.endswith(".log")] == ["00000000000000000020.log"]
    append(scene.log, batch(b"next", timestamp=NOW), epoch=5)
    assert read_all(scene.log, 20) == [(20, b"next")]


@STARTS
def test_nothing_touches_the_files_while_they_are_replaced(start: Start) -> None:
    scene = Scene()
    start(scene.log)
    scene.logs.checkpoint()
    before = scene.files
    with pytest.raises(LogUnsettled):
        append(scene.log, batch(b"too early", timestamp=NOW), epoch=5)
    scene.log.flush()
    scene.log.roll(NOW)
    assert scene.log.delete_old_segments(LATER) == []
    scene.logs.housekeeping(LATER)
    assert scene.log.has_pending
    assert (scene.log.log_end_offset, scene.files) == (20, before)
    assert read_all(scene.log, 20) == []
    scene.thread.release()
    assert scene.log.log_end_offset == 20


@STARTS
def test_a_slow_dir_refuses_appends_too(start: Start) -> None:
    scene = Scene()
    scene.log.disk.write_in_thread()
    start(scene.log)
    with pytest.raises(LogUnsettled):
        append(scene.log, batch(b"too early", timestamp=NOW), epoch=5)
    scene.thread.release()
    append(scene.log, batch(b"next", timestamp=NOW), epoch=5)
    scene.thread.release()
    assert scene.log.offsets.written == 21


@STARTS
def test_a_second_start_and_a_clean_stop_finish_the_first(start: Start) -> None:
    scene = Scene()
    start(scene.log)
    scene.log.truncate_fully_and_start_at(40, in_background=True)
    scene.logs.close()
    scene.thread.release()
    _, log = scene.restart(scene.fs, boot="boot-1")
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)


@STARTS
def test_a_deletion_cancels_it(start: Start) -> None:
    scene = Scene()
    start(scene.log)
    scene.logs.delete(PARTITION)
    log = scene.logs.create(PARTITION, TOPIC_ID, TIERED)
    before = scene.files
    scene.thread.release()
    assert (scene.files, log.log_end_offset) == (before, 0)


@STARTS
def test_a_full_disk_puts_it_off_until_the_next_retention(start: Start) -> None:
    scene = Scene()
    scene.fs.fail_at(1, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    start(scene.log)
    scene.thread.release()
    assert (scene.log.is_settled, scene.log.disk.error) == (False, None)
    scene.fs.heal()
    scene.log.delete_old_segments(LATER)
    scene.thread.release()
    assert scene.log.is_settled
    append(scene.log, batch(b"next", timestamp=NOW), epoch=5)


@STARTS
def test_a_disk_that_fails_ends_it(start: Start) -> None:
    scene = Scene()
    scene.fs.fail_at(3, OSError(errno.EIO, os.strerror(errno.EIO)), forever=True)
    start(scene.log)
    scene.thread.release()
    assert scene.log.disk.error is not None


@pytest.mark.parametrize("is_noted", [False, True])
@pytest.mark.parametrize("seed", [None, 1, 2])
@STARTS
def test_a_crash_at_every_step_leaves_the_old_log_or_the_new_one(
    start: Start, seed: int | None, is_noted: bool
) -> None:
    step, done = 0, False
    while not done:
        scene = Scene()
        start(scene.log)
        if is_noted:
            scene.logs.checkpoint()
        scene.fs.lose_power_at(step + 1)
        step += 1
        try:
            scene.thread.release()
            done = True
        except PowerLost:
            pass
        rng = None if seed is None else random.Random(seed * 1000 + step)
        _, log = scene.restart(scene.fs.crash(torn=rng))
        if log.log_end_offset < 20:
            assert not done
            assert log.log_start_offset == 0
            assert read_all(log) == [(n, b"value-%d" % n) for n in range(log.log_end_offset)]
        else:
            expected = (3, 20) if start is start_at else (20, 20)
            assert (log.log_start_offset, log.log_end_offset) == expected
    assert step > 4


# -- the loop -------------------------------------------------------------------------------------------


class SlowSyncs(LocalFileSystem):
    """Every fsync takes long."""

    def __init__(self) -> None:
        self.is_slow = False
        self.synced_by: list[int] = []
        """Threads, one for each slow fsync."""

    def sync_folder(self, path: str) -> None:
        self._wait()
        super().sync_folder(path)

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        if sync:
            self._wait()
        super().write_atomic(path, data, sync=sync)

    def _wait(self) -> None:
        if self.is_slow:
            self.synced_by.append(threading.get_ident())
            time.sleep(SLOW_SECONDS)


@STARTS
def test_the_loop_does_not_wait_for_the_disk(tmp_path: Path, start: Start) -> None:
    async def run() -> None:
        files = SlowSyncs()
        logs = _logs(files, str(tmp_path))
        loop = asyncio.get_running_loop()
        logs.use_threads(lambda name: ThreadBackground(loop, 1, name))
        log = logs.create(PARTITION, TOPIC_ID, LogConfig(remote_storage_enable=True))
        for _ in range(5):
            append(log, batch(b"x"))
        log.flush()
        logs.checkpoint()
        files.is_slow = True
        began = time.monotonic()
        start(log)
        held_up = time.monotonic() - began
        await asyncio.wait_for(settled(log), 60)
        assert threading.get_ident() not in files.synced_by
        assert len(files.synced_by) > 1
        assert held_up < time.monotonic() - began - SLOW_SECONDS
        files.is_slow = False
        append(log, batch(b"next"), epoch=5)
        assert read_all(log, 20) == [(20, b"next")]
        logs.close()

    asyncio.run(run())


def _logs(files: LocalFileSystem, folder: str) -> LogManager:
    config = BrokerConfig.load({"log.dirs": folder, "barnabas.disk.reserve.bytes": "0"})
    logs = LogManager(files, [folder], ManualClock(NOW), config, boot_id=lambda: "boot")
    logs.lock()
    logs.claim("cluster-0123456789abcd", 1)
    logs.load(lambda partition, topic_id: LogConfig())
    return logs
