"""Many deadlines on one timer; moving a deadline is cheap.

Group members move their deadline with every heartbeat, and almost no deadline is ever reached. A later
deadline
is therefore only noted in a dictionary, and the heap keeps the old one. When the old one comes, the deadline
is
looked up again and, if it has moved, goes back into the heap.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from barnabas.common.clock import Clock, Timer, Timers

K = TypeVar("K", bound=Hashable)

# A timer may fire slightly early, because the loop's clock is coarse.
SLACK_SECONDS = 0.001


class Deadlines(Generic[K]):
    """Calls `reached(key)` when the deadline of a key has passed; the key is removed before the call."""

    def __init__(self, clock: Clock, timers: Timers, reached: Callable[[K], None]) -> None:
        self._clock = clock
        self._timers = timers
        self._reached = reached
        self._moments: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = 0
        self._timer: Timer | None = None
        self._armed_for = float("inf")

    def __contains__(self, key: K) -> bool:
        return key in self._moments

    def __len__(self) -> int:
        return len(self._moments)

    def set(self, key: K, milliseconds: int) -> None:
        """Set the deadline of `key`, replacing an earlier one."""
        deadline = self._clock.monotonic() + milliseconds / 1000
        known = self._moments.get(key)
        self._moments[key] = deadline
        if known is None or deadline < known:
            self._push(deadline, key)

    def cancel(self, key: K) -> None:
        self._moments.pop(key, None)

    def clear(self) -> None:
        self._moments.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._armed_for = None, float("inf")

    def _push(self, deadline: float, key: K) -> None:
        self._order += 1  # keys need not be comparable
        heapq.heappush(self._heap, (deadline, self._order, key))
        self._arm()

    def _arm(self) -> None:
        """Arm the timer for the earliest entry of the heap."""
        if not self._heap or self._heap[0][0] >= self._armed_for:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = self._heap[0][0]
        self._timer = self._timers.call_later(
            max(self._armed_for - self._clock.monotonic(), 0.0), self._expire
        )

    def _expire(self) -> None:
        self._timer, self._armed_for = None, float("inf")
        now = self._clock.monotonic() + SLACK_SECONDS
        due: deque[K] = deque()
        while self._heap and self._heap[0][0] <= now:
            _, _, key = heapq.heappop(self._heap)
            deadline = self._moments.get(key)
            if deadline is None:
                continue
            if deadline <= now:
                del self._moments[key]
                due.append(key)
            else:
                self._order += 1
                heapq.heappush(self._heap, (deadline, self._order, key))
        try:
            while due:
                self._reached(due.popleft())
        finally:  # an error for one key must not affect the others
            for key in due:
                if key not in self._moments:
                    self.set(key, 0)
            self._arm()
