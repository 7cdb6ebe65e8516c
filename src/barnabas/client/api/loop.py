"""The event loop of blocking clients: one thread, shared by all clients of the process.

A separate thread lets blocking clients work where an event loop runs already (notebooks, web frameworks), and sends
in the background while the caller computes. It starts with the first client.

After a fork, the child has no such thread, and its copies of the sockets belong to the parent's connections: clients
created before the fork raise RuntimeError in the child, which must create its own.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from barnabas.common.loop_thread import LoopThread

T = TypeVar("T")

Callback = Callable[[], None]


class SharedLoop:
    """Runs coroutines of blocking clients. `is_lost` is set in a forked child."""

    def __init__(self) -> None:
        self.thread = LoopThread("barnabas clients")
        self.is_lost = False

    def refuse(self) -> None:
        raise RuntimeError(
            "this client was created before the process forked; create another one in the child process"
        )

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Result of a coroutine; TimeoutError after `timeout` seconds."""
        if self.is_lost:
            coroutine.close()
            self.refuse()
        return self.thread.run(coroutine, timeout)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine."""
        if self.is_lost:
            coroutine.close()
            self.refuse()
        return self.thread.submit(coroutine)

    def run_with_callbacks(self, start: Callable[[Callbacks], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine that calls functions of the caller, which this thread executes while it waits."""
        callbacks = Callbacks(self.thread.loop)
        future = self.submit(start(callbacks))
        future.add_done_callback(lambda done: callbacks.finish())
        try:
            callbacks.serve()
        except BaseException:  # KeyboardInterrupt
            future.cancel()
            raise
        return future.result()


class Callbacks:
    """Functions that wait for the caller's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: queue.SimpleQueue[Callback | None] = queue.SimpleQueue()

    async def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Called on the loop; returns when the caller's thread has executed the function."""
        done: asyncio.Future[None] = self._loop.create_future()

        def execute() -> None:
            try:
                function(*arguments)
            except BaseException as error:
                self._loop.call_soon_threadsafe(_fail, done, error)
            else:
                self._loop.call_soon_threadsafe(_finish, done)

        self._waiting.put(execute)
        await done

    def serve(self) -> None:
        while (execute := self._waiting.get()) is not None:
            execute()

    def finish(self) -> None:
        self._waiting.put(None)


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _fail(done: asyncio.Future[None], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))


_lock = threading.Lock()
_shared: SharedLoop | None = None


def shared_loop() -> SharedLoop:
    global _shared
    with _lock:
        if _shared is None:
            _shared = SharedLoop()
        return _shared


def _lose_in_child() -> None:
    global _lock, _shared
    _lock = threading.Lock()
    if _shared is not None:
        _shared.is_lost = True
        _shared = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lose_in_child)
