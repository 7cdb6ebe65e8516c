"""An event loop with virtual time: it never waits, it moves its clock to the next thing that is due.

Several processes live on it, and each of them can be stopped for a while, as SIGSTOP does. What a process does is known
by the context it runs in: tasks and callbacks inherit it from whoever creates them. While a process is stopped, what it
would do is put aside; then all of that happens, in its order, and late.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from typing import Any

START_MS = 1_700_000_000_000

_PROCESS: ContextVar[object | None] = ContextVar("the process that runs", default=None)


class NothingLeftToDo(Exception):  # noqa: N818 - not an error of the program under test
    """Everybody waits for somebody: a deadlock."""


class Process:
    """A life of a broker: whatever is begun by `run` belongs to it."""

    def __init__(self) -> None:
        self.context = copy_context()
        self.context.run(_PROCESS.set, self)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.context.copy().run(function, *arguments)


class VirtualLoop(asyncio.BaseEventLoop):
    """Callbacks run in the order in which they were asked for or are due, which makes a story repeatable."""

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._stopped: dict[object, list[asyncio.Handle]] = {}

    def time(self) -> float:
        return self._now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        # Compared as tuples: asyncio's own heap compares handles, in Python.
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is dropped when it would be due."""

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not ready and not self._stopping:
            if not timers:
                raise NothingLeftToDo
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled and not (self._stopped and self._is_put_aside(handle)):
                handle._run()

    # -- processes that stop ------------------------------------------------------------------------

    def stop_process(self, process: Process) -> None:
        self._stopped.setdefault(process, [])

    def continue_process(self, process: Process) -> None:
        self._ready.extend(self._stopped.pop(process, ()))

    def _is_put_aside(self, handle: asyncio.Handle) -> bool:
        waiting = self._stopped.get(handle._context.get(_PROCESS))  # type: ignore[attr-defined]
        if waiting is None:
            return False
        waiting.append(handle)
        return True


class VirtualClock:
    """The clock of every broker: that of the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return START_MS + round(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()
