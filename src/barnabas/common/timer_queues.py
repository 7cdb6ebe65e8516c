"""Timers of an event loop that are cheap to set and to cancel: one queue for each duration.

Most delayed requests are answered long before their deadline, and clients use few durations: long polls of 500 ms,
produce timeouts of 30 s. Timers of one duration expire in the order in which they were set. So each duration has a
dictionary in this order, and one timer of the loop, for the oldest entry: setting and cancelling is an insertion
and a deletion, instead of a handle and an entry in the loop's heap.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import final


@final
class QueuedTimer:
    __slots__ = ("_queue", "callback", "deadline")

    def __init__(self, queue: _TimerQueue, deadline: float, callback: Callable[[], None]) -> None:
        self._queue = queue
        self.deadline = deadline
        self.callback = callback

    def cancel(self) -> None:
        self._queue.pop(self, None)


class TimerQueues:
    """`Timers` of a loop."""

    __slots__ = ("_loop", "_now", "_queues")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._now = loop.time
        self._queues: dict[float, _TimerQueue] = {}

    def call_later(self, seconds: float, callback: Callable[[], None]) -> QueuedTimer:
        queue = self._queues.get(seconds)
        if queue is None:
            queue = self._queues[seconds] = _TimerQueue(self._loop, lambda: self._queues.pop(seconds))
        now = self._now
        deadline = now() + seconds
        timer = QueuedTimer(queue, deadline, callback)
        queue[timer] = None
        if queue.armed is None:
            queue.arm(deadline)
        return timer

    def __len__(self) -> int:
        """The number of durations in use."""
        return len(self._queues)


class _TimerQueue(dict[QueuedTimer, None]):
    """Timers of one duration, oldest first. A queue without timers ends when its last one would have expired."""

    __slots__ = ("_end", "_loop", "armed")

    def __init__(self, loop: AbstractEventLoop, end: Callable[[], object]) -> None:
        self._loop = loop
        self._end = end
        self.armed: TimerHandle | None = None

    def arm(self, deadline: float) -> None:
        self.armed = self._loop.call_at(deadline, self._expire, deadline)

    def _expire(self, deadline: float) -> None:
        """Call the timers that are due; the loop may be early by the resolution of its clock."""
        now = max(self._loop.time(), deadline)
        due = []
        following = None
        for timer in self:
            if timer.deadline > now:
                following = timer
                break
            due.append(timer)
        if following is not None:
            self.arm(following.deadline)
        else:
            self._end()
        for timer in due:
            if timer in self:  # not cancelled by an earlier one
                del self[timer]
                self._call(timer)

    def _call(self, timer: QueuedTimer) -> None:
        try:
            timer.callback()
        except Exception as error:
            message = f"Exception in timer {timer.callback!r}"
            self._loop.call_exception_handler({"message": message, "exception": error})
