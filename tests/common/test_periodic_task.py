"""Periodic tasks in slices: requests are served in between."""

import asyncio
from collections.abc import Iterator

import pytest

from barnabas.common.clock import TurnLimit
from barnabas.common.cooperative import PeriodicTask
from simulation.loop import VirtualLoop


class Work:
    """Steps with given durations on a manual clock."""

    def __init__(self, count: int, seconds: float = 0.0) -> None:
        self.count = count
        self.seconds = seconds
        self.now = 0.0
        self.done = 0
        self.rounds = 0

    def steps(self) -> Iterator[None]:
        self.rounds += 1
        for _ in range(self.count):
            self.now += self.seconds
            self.done += 1
            yield

    def monotonic(self) -> float:
        return self.now


async def turns_of(work: Work, rounds: PeriodicTask) -> list[int]:
    """How many steps each turn of the loop took, for the first round."""
    rounds.start(work.steps)
    seen = [work.done]
    while work.done < work.count:
        await asyncio.sleep(0)
        seen.append(work.done - sum(seen))
    return [count for count in seen if count]


def run(work: Work, most_steps: int = 1000) -> list[int]:
    async def play() -> list[int]:
        rounds = PeriodicTask(1.0, work.monotonic, TurnLimit(steps=most_steps))
        try:
            return await turns_of(work, rounds)
        finally:
            rounds.stop()

    return asyncio.run(play())


def test_slice_ends_when_its_time_is_over() -> None:
    iterations = run(Work(100, TurnLimit().seconds / 4))
    assert max(iterations) <= 5
    assert sum(iterations) == 100


def test_slice_ends_after_a_number_of_steps_when_the_clock_is_frozen() -> None:
    assert run(Work(100), most_steps=1) == [1] * 100


def test_short_work_is_done_in_one_slice() -> None:
    assert run(Work(100)) == [100]


def test_rounds_follow_one_another_until_they_are_stopped() -> None:
    loop = VirtualLoop()
    work = Work(3)
    rounds = PeriodicTask(1.0, loop.time, TurnLimit(steps=1))

    async def play() -> None:
        rounds.start(work.steps)
        await asyncio.sleep(2.5)
        rounds.stop()
        await asyncio.sleep(5)

    loop.run_until_complete(play())
    loop.close()
    assert work.rounds == 3


def test_round_stopped_half_way_does_not_continue() -> None:
    work = Work(100)

    async def play() -> None:
        rounds = PeriodicTask(1.0, work.monotonic, TurnLimit(steps=10))
        rounds.start(work.steps)
        rounds.stop()
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(play())
    assert work.done == 10


def test_a_step_that_fails_ends_its_round_only() -> None:
    loop = VirtualLoop()
    began = []

    def steps() -> Iterator[None]:
        began.append(loop.time())
        if len(began) == 1:
            raise RuntimeError("the first time")
        yield

    rounds = PeriodicTask(1.0, loop.time, TurnLimit(steps=1))

    async def play() -> None:
        with pytest.raises(RuntimeError):
            rounds.start(steps)
        await asyncio.sleep(1.5)
        rounds.stop()

    loop.run_until_complete(play())
    loop.close()
    assert began == [0.0, 1.0]
