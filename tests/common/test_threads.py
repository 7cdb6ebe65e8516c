"""Blocking work in threads, and delivery of results to the loop."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.threads import ThreadBackground

DEADLINE = 60


def with_threads(count: int) -> Callable[..., Callable[[], None]]:
    """A test that runs on a loop, with so many threads for it."""

    def decorate(test: Callable[[ThreadBackground], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        async def run() -> None:
            threads = ThreadBackground(asyncio.get_running_loop(), count, "test")
            try:
                await test(threads)
            finally:
                threads.close()

        @wraps(test)
        def sync() -> None:
            asyncio.run(run())

        del sync.__wrapped__  # otherwise pytest treats its parameters as fixtures
        return sync

    return decorate


async def ends(threads: ThreadBackground, *works: Callable[[], object]) -> list[OSError | None]:
    """Results of several calls, in order of completion."""
    notified: list[OSError | None] = []
    all_told = asyncio.Event()

    def done(error: OSError | None) -> None:
        notified.append(error)
        if len(notified) == len(works):
            all_told.set()

    for work in works:
        threads.run(work, done)  # type: ignore[arg-type]
    async with asyncio.timeout(DEADLINE):
        await all_told.wait()
    return notified


@with_threads(2)
async def test_completion_runs_on_the_loop_with_the_error_of_the_work(threads: ThreadBackground) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    assert await ends(threads, lambda: None) == [None]
    (error,) = await ends(threads, full)
    assert error is not None
    assert error.errno == 28


@with_threads(2)
async def test_error_of_another_kind_is_reported_as_a_disk_error(threads: ThreadBackground) -> None:
    def wrong() -> None:
        raise ValueError("not a segment")

    (error,) = await ends(threads, wrong)
    assert str(error) == "not a segment"


@with_threads(2)
async def test_threads_start_on_demand_up_to_the_maximum(
    threads: ThreadBackground,
) -> None:
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test_")]
    names: set[str] = set()
    await ends(threads, *[lambda: names.add(threading.current_thread().name)] * 50)
    assert names <= {"test_0", "test_1"}


@with_threads(2)
async def test_failed_waiter_leaves_the_share_to_others(threads: ThreadBackground) -> None:
    loop, failures = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def fail(error: OSError | None) -> None:
        raise ValueError("a mistake")

    threads.run(lambda: None, fail)
    assert await ends(threads, lambda: None) == [None]
    assert [str(failure) for failure in failures] == ["a mistake"]


@with_threads(2)
async def test_call_returns_or_raises_the_result_of_its_work(threads: ThreadBackground) -> None:
    def refuse() -> None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "bad")

    assert await threads.call(lambda: 7) == 7
    with pytest.raises(KafkaError) as caught:
        await threads.call(refuse)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@with_threads(2)
async def test_memory_of_a_failed_call_is_freed_without_the_garbage_collector(
    threads: ThreadBackground,
) -> None:
    class Batch:
        pass

    async def refused() -> weakref.ref[Batch]:
        batch = Batch()

        def work() -> None:
            raise ValueError(str(batch))

        try:
            await threads.call(work)
        except ValueError:
            return weakref.ref(batch)
        raise AssertionError("it was not refused")

    gc.collect()
    gc.disable()
    try:
        batch = await refused()
        await ends(threads, lambda: None, lambda: None)  # the threads hold their last piece of work no longer
        assert batch() is None
    finally:
        gc.enable()


@with_threads(1)
async def test_closing_waits_for_all_work_and_takes_no_more(background: ThreadBackground) -> None:
    finished: list[int] = []
    for number in range(20):
        background.run(lambda number=number: finished.append(number), lambda error: None)  # type: ignore[misc]
    background.close()
    assert finished == list(range(20))
    with pytest.raises(RuntimeError, match="have ended"):
        background.run(lambda: None, lambda error: None)


@with_threads(1)
async def test_closing_in_a_hurry_cancels_calls_that_have_not_begun(background: ThreadBackground) -> None:
    begun, go_on, later = threading.Event(), threading.Event(), []

    def first() -> int:
        begun.set()
        go_on.wait(DEADLINE)
        return 1

    running = asyncio.ensure_future(background.call(first))
    waiting = asyncio.ensure_future(background.call(lambda: later.append("it ran")))
    await asyncio.to_thread(begun.wait, DEADLINE)
    go_on.set()
    background.close(drop_waiting=True)
    done = await asyncio.gather(running, waiting, return_exceptions=True)
    assert done[0] == 1
    if not later:  # the thread may have started it first
        assert isinstance(done[1], asyncio.CancelledError)


@with_threads(1)
async def test_call_without_an_awaiting_caller_is_not_started(background: ThreadBackground) -> None:
    go_on, later = threading.Event(), []
    running = asyncio.ensure_future(background.call(lambda: go_on.wait(DEADLINE)))
    waiting = asyncio.ensure_future(background.call(lambda: later.append("it ran")))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    go_on.set()
    assert await running
    background.close()
    assert later == []
