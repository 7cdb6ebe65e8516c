"""How the loop is doing: how late it calls its timers, and how much of the time it has nothing to do."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from barnabas.metrics import network_catalogue
from barnabas.metrics.registry import Registry

# Often enough to catch a loop that stands still for a moment, seldom enough to cost an idle broker nothing.
INTERVAL = 0.25
WINDOW = 60.0


class LoopMonitor:
    """Sets a timer again and again, and notes by how much it is late: that is what every request waits for too."""

    def __init__(
        self,
        registry: Registry,
        was_late: Callable[[float], None] = lambda seconds: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._was_late = was_late
        self._now = monotonic
        self._lag = registry.histogram(network_catalogue.LOOP_LAG).labels()
        self._recent: deque[float] = deque([0.0], maxlen=int(WINDOW / INTERVAL))
        self._idle = 1.0
        self._handle: asyncio.TimerHandle | None = None
        registry.read_by(network_catalogue.LOOP_LAG_MAX, lambda: max(self._recent))
        registry.read_by(network_catalogue.NETWORK_IDLE, lambda: self._idle)
        registry.read_by(network_catalogue.HANDLER_IDLE, lambda: self._idle)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._set_timer()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _set_timer(self) -> None:
        self._started, self._cpu_then = self._now(), time.thread_time()
        self._handle = self._loop.call_later(INTERVAL, self._tick)

    def _tick(self) -> None:
        elapsed = self._now() - self._started
        self.note(elapsed - INTERVAL)
        busy = min((time.thread_time() - self._cpu_then) / elapsed, 1.0) if elapsed > 0 else 0.0
        # A moving average over some ten seconds, as Kafka's meters have it over a minute.
        self._idle += (1.0 - busy - self._idle) * (INTERVAL / 10)
        self._set_timer()

    def note(self, lag: float) -> None:
        lag = max(lag, 0.0)
        self._lag.observe(lag)
        self._recent.append(lag)
        self._was_late(lag)
