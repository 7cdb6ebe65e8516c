"""Retries of the store: attempts, their timing, and backoff while it is down."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas.common.clock import ManualClock
from barnabas.tiering.reading.store_reader import StoreReader
from barnabas.tiering.stores.store import MissingObjectError, StoreUnavailableError, Versioned


class Script:
    """A store with scripted responses."""

    def __init__(self, *answers: bytes | Exception | None) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def get(self, key: str) -> Versioned:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return Versioned(answer or b"", "1")


def reading(
    store: Script, test: Callable[[StoreReader, ManualClock], Coroutine[Any, Any, None]], seconds: float = 10
) -> None:
    clock = ManualClock()

    async def sleep(pause: float) -> None:
        clock.advance(round(1000 * pause))

    async def body() -> None:
        await test(StoreReader(store, clock, sleep=sleep, attempt_seconds=seconds), clock)  # type: ignore[arg-type]

    asyncio.run(asyncio.wait_for(body(), 60))


def test_a_failed_call_is_tried_three_times() -> None:
    store = Script(StoreUnavailableError("503"), StoreUnavailableError("503"), b"there")

    async def test(reader: StoreReader, clock: ManualClock) -> None:
        assert (await reader.get("a")).data == b"there"
        assert (store.asked, reader.is_down) == (3, False)

    reading(store, test)


def test_negative_response_is_not_requested_again() -> None:
    store = Script(MissingObjectError("a does not exist"))

    async def test(reader: StoreReader, clock: ManualClock) -> None:
        with pytest.raises(MissingObjectError):
            await reader.get("a")
        assert (store.asked, reader.is_down) == (1, False)

    reading(store, test)


def test_a_call_that_hangs_is_given_up() -> None:
    store = Script(None, b"there")

    async def test(reader: StoreReader, clock: ManualClock) -> None:
        assert (await reader.get("a")).data == b"there"
        assert store.asked == 2

    reading(store, test, seconds=0.01)


def test_unavailable_store_is_retried_once_a_second() -> None:
    store = Script(StoreUnavailableError("connection refused"))

    async def test(reader: StoreReader, clock: ManualClock) -> None:
        with pytest.raises(StoreUnavailableError, match="connection refused"):
            await reader.get("a")
        assert (store.asked, reader.is_down) == (3, True)
        for _ in range(50):
            with pytest.raises(StoreUnavailableError, match="is down"):
                await reader.get("b")
        assert store.asked == 3
        clock.advance(1_100)
        for _ in range(50):
            with pytest.raises(StoreUnavailableError):
                await reader.get("b")
        assert store.asked == 4

    reading(store, test)


def test_the_first_success_ends_the_pause() -> None:
    store = Script(*[StoreUnavailableError("503")] * 3, b"there")

    async def test(reader: StoreReader, clock: ManualClock) -> None:
        with pytest.raises(StoreUnavailableError):
            await reader.get("a")
        clock.advance(1_100)
        assert (await reader.get("a")).data == b"there"
        assert not reader.is_down
        assert (await reader.get("a")).data == b"there"

    reading(store, test)


def test_all_attempts_together_take_thirty_seconds_at_most() -> None:
    async def test(reader: StoreReader, clock: ManualClock) -> None:
        async def slow(key: str) -> Versioned:
            store.asked += 1
            clock.advance(16_000)
            raise StoreUnavailableError("no answer")

        store.get = slow  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailableError):
            await reader.get("a")
        assert (store.asked, reader.is_down) == (2, True)

    store = Script(b"")
    reading(store, test)


def test_no_more_requests_run_at_once_than_are_allowed() -> None:
    store = Script(None)

    async def test(reader: StoreReader, clock: ManualClock) -> None:
        readers = [asyncio.create_task(reader.get("a")) for _ in range(30)]
        await asyncio.sleep(0)
        assert store.asked == 10
        reader.allow(15)
        readers += [asyncio.create_task(reader.get("a")) for _ in range(30)]
        await asyncio.sleep(0)
        assert store.asked == 25
        for task in readers:
            task.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    reading(store, test)
