"""Waiting for conditions changed by another thread, process or task.

`until` waits for a condition, `eventually` for a result that a second function accepts, `retry` for a call that raises
no error; `async_until` and `async_eventually` wait on the event loop. All of them poll, every millisecond at first and
less often the longer they have waited, so that a short wait ends at once and a long one does not load the machine.
After `seconds` they fail with `what`, or with the result of `what` if it is callable (the tail of a log, a status).
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from subprocess import Popen
from typing import Any, TypeVar, overload

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...]
SECONDS = 60.0
MIN_PAUSE, MAX_PAUSE = 0.001, 0.05


def until(
    condition: Callable[[], T],
    what: object = "",
    seconds: float = SECONDS,
    *,
    every: float = MAX_PAUSE,
    meanwhile: Callable[[], object] | None = None,
    ignoring: Errors = (),
) -> T:
    """Call `condition` until its result is true and return that result.

    `meanwhile` runs after each check that fails: it polls a client, or is `still_running(process)`. Exceptions in
    `ignoring` count as a failed check. `every` is the longest pause between checks.
    """
    begin = time.monotonic()
    while True:
        error = None
        try:
            if result := condition():
                return result
        except ignoring as caught:
            error = caught
        if meanwhile is not None:
            meanwhile()
        waited = time.monotonic() - begin
        if waited >= seconds:
            raise AssertionError(_failure(what or error, seconds)) from error
        time.sleep(_pause(waited, every))


@overload
async def async_until(
    condition: Callable[[], Awaitable[T]], what: object = "", seconds: float = SECONDS, *, every: float = ...
) -> T: ...
@overload
async def async_until(
    condition: Callable[[], T], what: object = "", seconds: float = SECONDS, *, every: float = ...
) -> T: ...
async def async_until(
    condition: Callable[[], Any], what: object = "", seconds: float = SECONDS, *, every: float = MAX_PAUSE
) -> Any:
    """Same as `until` on the event loop and its clock; the condition may be a coroutine function."""
    clock = asyncio.get_running_loop().time
    begin = clock()
    while True:
        result = condition()
        if inspect.isawaitable(result):
            result = await result
        if result:
            return result
        waited = clock() - begin
        if waited >= seconds:
            raise AssertionError(_failure(what, seconds))
        await asyncio.sleep(_pause(waited, every))


def eventually(
    read: Callable[[], T],
    wanted: Callable[[T], object],
    seconds: float = SECONDS,
    *,
    every: float = MAX_PAUSE,
    meanwhile: Callable[[], object] | None = None,
) -> T:
    """Call `read` until `wanted` accepts its result and return it; the failure shows the last result."""
    results: list[T] = []

    def is_wanted() -> bool:
        results[:] = [read()]
        return bool(wanted(results[0]))

    until(is_wanted, lambda: f"last result: {results[0]!r}", seconds, every=every, meanwhile=meanwhile)
    return results[0]


async def async_eventually(
    read: Callable[[], Awaitable[T]],
    wanted: Callable[[T], object],
    seconds: float = SECONDS,
    *,
    every: float = MAX_PAUSE,
) -> T:
    """Same as `eventually` for a coroutine function."""
    results: list[T] = []

    async def is_wanted() -> bool:
        results[:] = [await read()]
        return bool(wanted(results[0]))

    await async_until(is_wanted, lambda: f"last result: {results[0]!r}", seconds, every=every)
    return results[0]


def retry(
    action: Callable[[], T],
    errors: Errors,
    what: object = "",
    seconds: float = SECONDS,
    *,
    every: float = MAX_PAUSE,
    meanwhile: Callable[[], object] | None = None,
) -> T:
    """Call `action` until it raises none of these errors and return its result."""
    results: list[T] = []

    def succeeds() -> bool:
        results.append(action())
        return True

    until(succeeds, what, seconds, every=every, meanwhile=meanwhile, ignoring=errors)
    return results[0]


def still_running(process: Popen[Any], what: object = "the process has ended") -> Callable[[], None]:
    """A check for `meanwhile`: do not wait for a process that has ended."""

    def check() -> None:
        if process.poll() is not None:
            raise AssertionError(f"{_text(what)} (exit code {process.returncode})")

    return check


def _failure(what: object, seconds: float) -> str:
    return f"{_text(what) or 'the condition is still false'} (gave up after {seconds:g} s)"


def _text(what: object) -> str:
    return str(what() if callable(what) else what or "")


def _pause(waited: float, every: float) -> float:
    """Seconds until the next check: a tenth of those waited so far, within bounds."""
    return min(max(waited / 10, MIN_PAUSE), every)
