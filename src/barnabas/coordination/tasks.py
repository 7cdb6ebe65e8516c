"""Coroutines of coordinators, coroutines that wait for a callback, and one callback for many results.

Coordinators and their state machines do not import asyncio (tools/check_imports.py); this module does it for
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from barnabas.common.errors import KafkaError

K = TypeVar("K")
T = TypeVar("T")


class Tasks:
    """Running coroutines. The loop keeps only weak references to tasks; this keeps strong ones."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()


async def answer_of(ask: Callable[[Callable[[T | KafkaError], None]], None]) -> T:
    """Call `ask` and await its callback; raises KafkaError."""
    future: asyncio.Future[T | KafkaError] = asyncio.get_running_loop().create_future()

    def answered(outcome: T | KafkaError) -> None:
        if not future.done():  # cancelled meanwhile: the broker is stopping
            future.set_result(outcome)

    ask(answered)
    outcome = await future
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


def ask_each(
    keys: Sequence[K],
    ask: Callable[[K, Callable[[T], None]], None],
    done: Callable[[list[T]], None],
) -> None:
    """Call `ask` for each key, then `done` with all results in the order of the keys."""
    answers: dict[int, T] = {}

    def answered(number: int, answer: T) -> None:
        answers[number] = answer
        if len(answers) == len(keys):
            done([answers[number] for number in range(len(keys))])

    if not keys:
        done([])
    for number, key in enumerate(keys):
        ask(key, partial(answered, number))
