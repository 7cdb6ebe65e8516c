"""A delayed operation is completed once: when possible, or at its deadline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.common.clock import ManualClock
from barnabas.replication.delayed import DelayedOperation


class ManualLoop:
    def __init__(self) -> None:
        self.timers = ManualClock()
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class Sum(DelayedOperation):
    """Waits for ten."""

    def __init__(self, loop: ManualLoop) -> None:
        super().__init__(loop)
        self.found = self.attempts = 0
        self.answers: list[str] = []

    def try_complete(self) -> bool:
        self.attempts += 1
        return self.found >= 10 and self._answer(str(self.found))

    def on_expiration(self) -> None:
        self._answer("late")

    def _answer(self, answer: str) -> bool:
        if not self.complete():
            return False
        self.answers.append(answer)
        return True


@pytest.fixture
def loop() -> ManualLoop:
    return ManualLoop()


def test_all_changes_of_one_iteration_share_a_retry(loop: ManualLoop) -> None:
    operation = Sum(loop)
    operation.try_complete()
    operation.wait(1.0)
    operation.changed()
    operation.changed()
    loop.turn()
    assert operation.attempts == 2
    assert not operation.is_completed


def test_it_is_completed_once_and_does_not_expire_afterwards(loop: ManualLoop) -> None:
    operation = Sum(loop)
    operation.wait(1.0)
    operation.found = 10
    operation.changed()
    loop.turn()
    assert not operation.complete()
    loop.timers.advance(1_000)
    operation.changed()
    loop.turn()
    assert operation.answers == ["10"]
    assert operation.attempts == 1


def test_it_is_completed_at_its_deadline_at_the_latest(loop: ManualLoop) -> None:
    operation = Sum(loop)
    operation.wait(1.0)
    loop.timers.advance(999)
    assert not operation.is_completed
    loop.timers.advance(1)
    assert operation.answers == ["late"]


def test_a_change_that_came_before_the_deadline_is_not_tried_after_it(loop: ManualLoop) -> None:
    operation = Sum(loop)
    operation.wait(1.0)
    operation.found = 10
    operation.changed()
    loop.timers.advance(1_000)
    loop.turn()
    assert operation.answers == ["late"]
    assert operation.attempts == 0


def test_immediately_completed_operation_sets_no_timer(loop: ManualLoop) -> None:
    operation = Sum(loop)
    operation.found = 10
    assert operation.try_complete()
    operation.wait(1.0)
    loop.timers.advance(1_000)
    assert operation.answers == ["10"]
