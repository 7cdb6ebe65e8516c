"""A replica moves to a log dir whose disk is slow and partly full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.common.clock import ManualClock
from barnabas.log.dirs.move import LogDirMove
from barnabas.replication import log_dir_moves
from barnabas.replication.log_dir_moves import ReplicaMoves
from barnabas.testing.files import FaultyFileSystem
from tests.log.dirs.test_moves import SMALL, started
from tests.log.test_pending import FULL, ManualThread, slowed_down
from tests.support.builders.logs import NOW, PARTITION, TOPIC_ID, append, batch, read_all

COUNT = 6


@pytest.fixture(autouse=True)
def everything_is_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dir_moves, "is_cold", lambda log, offset: True)


class Broker:
    """As much of a broker as moves need; `cold_read` is called while a read waits."""

    def __init__(self, fs: FaultyFileSystem) -> None:
        self.clock = ManualClock(NOW)
        self.logs = started(fs)
        self.cold_read: Callable[[], None] = lambda: None

    def load(self, reads: object, done: Callable[[], None]) -> None:
        self.cold_read()
        done()

    async def call(self, work: Callable[[], Any]) -> Any:
        return work()


class Scene:
    def __init__(self) -> None:
        self.fs = FaultyFileSystem()
        self.broker = Broker(self.fs)
        logs = self.broker.logs
        logs.placement.prefer(PARTITION, logs.dirs[0])
        log = logs.create(PARTITION, TOPIC_ID, SMALL)
        for number in range(COUNT):
            append(log, batch(b"value-%d" % number))
        self.move: LogDirMove = logs.moves.begin(log, logs.dirs[1])
        self.thread: ManualThread = slowed_down(self.move.future)

    def fail(self) -> None:
        """There is no room for the batches that wait to be written."""
        self.fs.fail_at(1, FULL, "append", suffix=".log")
        self.thread.finish()
        self.fs.heal()

    def moves(self) -> ReplicaMoves:
        broker = self.broker
        nothing: Any = None
        return ReplicaMoves(broker.logs, nothing, nothing, broker, broker, broker.clock)  # type: ignore[arg-type]

    async def copy(self) -> None:
        moves = self.moves()
        for _ in range(4 * COUNT):
            await moves._copy_some(self.move)
            self.thread.finish()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(log_dir_moves, "READ_BYTES", 2 * len(batch(b"value-0")))
    return Scene()


def test_batches_that_fail_while_the_next_ones_are_read_are_copied_again(scene: Scene) -> None:
    async def scenario() -> None:
        moves = scene.moves()
        await moves._copy_some(scene.move)
        assert scene.move.future.has_pending
        scene.broker.cold_read = scene.fail
        await moves._copy_some(scene.move)
        scene.broker.cold_read = lambda: None
        scene.thread.finish()
        await scene.copy()

    asyncio.run(scenario())
    assert read_all(scene.move.future) == read_all(scene.move.log)


def test_batches_that_fail_between_two_pieces_are_copied_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0

    async def pass_turn(seconds: float) -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            scene.fail()

    monkeypatch.setattr(log_dir_moves, "pieces", lambda walked: [[each] for each in walked])
    monkeypatch.setattr(asyncio, "sleep", pass_turn)
    asyncio.run(scene.copy())
    assert turns > 1
    assert read_all(scene.move.future) == read_all(scene.move.log)
