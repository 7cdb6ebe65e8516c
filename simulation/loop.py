"""Event loop with virtual time: it never sleeps, it advances its clock to the next timer.

It runs several processes, each of which can be suspended, as by SIGSTOP. The context of a task or callback, inherited
from its creator, identifies its process. Callbacks of a suspended process are queued and run in order once it resumes.

A scenario runs about three thousand callbacks, so the per-callback overhead of asyncio's loop is omitted: debug mode,
the selector, other threads.
"""

from __future__ import annotations

import asyncio
from asyncio import Future, Task
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from typing import Any

START_MS = 1_700_000_000_000

_PROCESS: ContextVar[object | None] = ContextVar("the process that runs", default=None)


class NothingLeftToDo(Exception):  # noqa: N818 - not an error of the program under test
    """Deadlock: no callback is ready and no timer is pending."""


class Process:
    """One run of a broker process: everything started by `run` belongs to it."""

    def __init__(self) -> None:
        self.context = copy_context()
        self.context.run(_PROCESS.set, self)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.context.copy().run(function, *arguments)


class VirtualHandle:
    """A scheduled callback and the context it runs in."""

    __slots__ = ("arguments", "callback", "context", "due")

    def __init__(
        self, callback: Callable[..., Any], arguments: tuple[Any, ...], context: Context, due: float = 0.0
    ) -> None:
        self.callback: Callable[..., Any] | None = callback
        self.arguments = arguments
        self.context = context
        self.due = due

    def cancel(self) -> None:
        """Cancel the callback; the handle is discarded when it becomes due."""
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.due


class VirtualLoop(asyncio.BaseEventLoop):
    """Callbacks run in the order of scheduling or due time, which makes a scenario reproducible."""

    get_debug = staticmethod(bool)  # returns False without executing Python code; every new future calls it

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._due: deque[VirtualHandle] = deque()
        self._timers: list[tuple[float, int, VirtualHandle]] = []
        """(due time, unique number, handle): the heap never compares handles."""
        self._number = 0
        self._is_to_stop = False
        self._stopped: dict[object, list[VirtualHandle]] = {}

    def time(self) -> float:
        return self.now

    # -- scheduling ---------------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        handle = VirtualHandle(callback, args, copy_context() if context is None else context)
        self._due.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        handle = VirtualHandle(callback, args, copy_context() if context is None else context, when)
        if when > self.now:
            self._number += 1
            heappush(self._timers, (when, self._number, handle))
        else:
            self._due.append(handle)
        return handle

    def create_future(self) -> Future[Any]:
        return Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> Task[Any]:
        return Task(coro, loop=self, name=name, context=context)

    def stop(self) -> None:
        self._is_to_stop = True
        super().stop()

    # -- running ------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """Run callbacks until `stop` is called; asyncio's loop would return after each iteration. An uncaught exception
        ends the scenario."""
        self._is_to_stop = False
        due, stopped = self._due, self._stopped
        while not self._is_to_stop:
            if not due:
                self._let_time_pass()
            handle = due.popleft()
            callback = handle.callback
            if callback is not None and not (stopped and self._is_put_aside(handle)):
                handle.context.run(callback, *handle.arguments)

    def _let_time_pass(self) -> None:
        timers, due = self._timers, self._due
        while timers and timers[0][2].callback is None:
            heappop(timers)
        if not timers:
            raise NothingLeftToDo
        now = self.now = timers[0][0]
        while timers and timers[0][0] <= now:
            due.append(heappop(timers)[2])

    # -- suspended processes ------------------------------------------------------------------------

    def stop_process(self, process: Process) -> None:
        self._stopped.setdefault(process, [])

    def continue_process(self, process: Process) -> None:
        self._due.extend(self._stopped.pop(process, ()))

    def continue_all(self) -> None:
        for process in list(self._stopped):
            self._due.extend(self._stopped.pop(process))

    def _is_put_aside(self, handle: VirtualHandle) -> bool:
        waiting = self._stopped.get(handle.context.get(_PROCESS))
        if waiting is None:
            return False
        waiting.append(handle)
        return True


class VirtualClock:
    """Clock of every broker, driven by the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return START_MS + round(self._loop.now * 1000)

    def monotonic(self) -> float:
        return self._loop.now

    def expiry_ms(self) -> int:
        return self.now_ms()
