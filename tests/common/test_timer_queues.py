"""Queued timers expire like those of the loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from barnabas.common.timer_queues import TimerQueues
from simulation.loop import VirtualHandle, VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_timers_expire_at_their_time_and_in_order(loop: VirtualLoop) -> None:
    timers = TimerQueues(loop)
    draw = random.Random(5)
    expected: list[tuple[float, int]] = []
    expired: list[tuple[float, int]] = []

    def note(number: int) -> None:
        expired.append((loop.time(), number))

    for number in range(500):
        delay = draw.choice((0.5, 1.0, 1.0, 30.0, draw.random()))
        due = loop.time() + delay
        timer = timers.call_later(delay, partial(note, number))
        if draw.random() < 0.6:
            timer.cancel()
            timer.cancel()
        else:
            expected.append((due, number))
        loop.run_until_complete(asyncio.sleep(draw.random() / 50))
    loop.run_until_complete(asyncio.sleep(40))
    assert [number for _, number in expired] == [number for _, number in sorted(expected)]
    assert all(abs(at - due) < 1e-6 for (at, _), (due, _) in zip(expired, sorted(expected), strict=True))
    assert len(timers) == 0


def test_one_timer_of_the_loop_serves_all_of_a_duration(loop: VirtualLoop) -> None:
    timers = TimerQueues(loop)
    calls: list[float] = []
    call_at = loop.call_at

    def counted(when: float, callback: Callable[[float], None], deadline: float) -> VirtualHandle:
        calls.append(when)
        return call_at(when, callback, deadline)

    loop.call_at = counted  # type: ignore[assignment,method-assign]
    for _ in range(1000):
        timers.call_later(0.5, lambda: None).cancel()
    assert len(calls) == 1


def test_a_timer_may_cancel_and_set_others_and_may_fail(loop: VirtualLoop) -> None:
    timers = TimerQueues(loop)
    failures: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    called = []

    def first() -> None:
        second.cancel()
        timers.call_later(1.0, lambda: called.append("again"))
        raise RuntimeError("on purpose")

    timers.call_later(1.0, first)
    second = timers.call_later(1.0, lambda: called.append("second"))
    timers.call_later(1.0, lambda: called.append("third"))
    loop.run_until_complete(asyncio.sleep(3))
    assert called == ["third", "again"]
    assert [str(each["exception"]) for each in failures] == ["on purpose"]
