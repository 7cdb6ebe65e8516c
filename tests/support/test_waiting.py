"""Waits end with the condition and fail with the given reason."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from tests.support.waiting import (
    async_eventually,
    async_until,
    eventually,
    retry,
    still_running,
    until,
)


def test_until_returns_the_first_true_result() -> None:
    results = iter([0, "", [], "found"])
    assert until(lambda: next(results)) == "found"


def test_until_fails_with_the_reason_and_the_limit() -> None:
    with pytest.raises(AssertionError, match=r"^no leader \(gave up after 0.01 s\)$"):
        until(lambda: False, "no leader", 0.01)
    with pytest.raises(AssertionError, match=r"^tail of the log \(gave up after 0.01 s\)$"):
        until(lambda: False, lambda: "tail of the log", 0.01)


def test_errors_that_are_ignored_count_as_not_yet() -> None:
    results = iter([OSError("refused"), OSError("refused"), 3])

    def connect() -> int:
        result = next(results)
        if isinstance(result, OSError):
            raise result
        assert isinstance(result, int)
        return result

    assert retry(connect, OSError) == 3


def test_the_last_error_is_the_cause_of_the_failure() -> None:
    def refuse() -> None:
        raise OSError("refused")

    with pytest.raises(AssertionError, match="refused") as failure:
        retry(refuse, OSError, seconds=0.01)
    assert isinstance(failure.value.__cause__, OSError)
    with pytest.raises(OSError, match="refused"):
        retry(refuse, ValueError)


def test_nothing_waits_for_a_process_that_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    with process, pytest.raises(AssertionError, match=r"^its output \(exit code 3\)$"):
        until(lambda: False, meanwhile=still_running(process, lambda: "its output"))


def test_eventually_shows_the_last_result() -> None:
    numbers = iter(range(100))
    assert eventually(lambda: next(numbers), lambda number: number > 2) == 3
    with pytest.raises(AssertionError, match=r"^last result: 'starting' \(gave up after 0 s\)$"):
        eventually(lambda: "starting", lambda state: state == "running", 0)


def test_conditions_on_the_event_loop_may_be_coroutine_functions() -> None:
    async def main() -> None:
        numbers = iter(range(100))

        async def ask() -> int:
            return next(numbers)

        assert await async_until(ask) == 1
        assert await async_until(lambda: next(numbers)) == 2
        assert await async_eventually(ask, lambda number: number > 5) == 6
        with pytest.raises(AssertionError, match="no answer"):
            await async_until(lambda: None, "no answer", 0.01)

    asyncio.run(main())
