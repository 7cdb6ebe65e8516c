"""Clock and timer interfaces, with manual implementations for tests."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

HAS_BOOT_CLOCK = hasattr(time, "CLOCK_BOOTTIME")


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time in epoch milliseconds, for records and files."""
        ...

    def monotonic(self) -> float:
        """Monotonic seconds, for timeouts."""
        ...

    def expiry_ms(self) -> int:
        """Wall-clock time for age-based deletion. It does not follow a forward jump at once (`ExpiryClock`)."""
        ...


def boot_seconds() -> float:
    """Monotonic seconds that include suspended time, unlike `monotonic` on Linux: for timeouts that other machines
    measure, such as session timeouts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if HAS_BOOT_CLOCK else time.monotonic()


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer: ...


class TurnLimit(NamedTuple):
    """Time slice of long work on the event loop: a few milliseconds, or `steps` steps if that is less. The step limit
    applies in simulations, whose clock does not advance during the work."""

    seconds: float = 0.003
    steps: int = 1000
    piece_bytes: int = 1 << 20
    """Bytes of batches appended per step, unless there are many batches (`replication/follower.py`)."""


class Turn:
    """Current time slice of long work."""

    __slots__ = ("_limit", "_monotonic", "_steps", "_until")

    def __init__(self, limit: TurnLimit, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self.begin()

    def begin(self) -> None:
        self._steps = 0
        self._until = self._monotonic() + self._limit.seconds

    def is_over(self) -> bool:
        """Count a step; True if the slice is used up."""
        self._steps += 1
        return self._steps >= self._limit.steps or self._monotonic() >= self._until


class ExpiryClock:
    """Wall clock that does not jump ahead by more than `longest_jump_ms` at once.

    A clock set to a wrong time in the future would expire everything immediately. The wall clock is therefore compared
    with the time since boot, which cannot be set. After a jump, time continues as before until the clock is set back or
    `pause_ms` have passed; setting that to 0 confirms the new time. Without a boot clock this is the wall clock.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        boot: Callable[[], float] | None = boot_seconds if HAS_BOOT_CLOCK else None,
    ) -> None:
        self._now_ms = now_ms
        self._boot = boot
        self.longest_jump_ms = 300_000
        self.pause_ms = 3_600_000
        self._offset = now_ms() - self._boot_ms()
        """Wall-clock time minus time since boot, before the jump."""
        self._jumped_at: int | None = None

    def _boot_ms(self) -> int:
        return round(self._boot() * 1000) if self._boot is not None else 0

    def now_ms(self) -> int:
        """Return the time. Call it often: each call absorbs small clock corrections since the last one."""
        now, boot = self._now_ms(), self._boot_ms()
        ahead = now - boot - self._offset
        if self._boot is None or ahead <= self.longest_jump_ms:
            self._follow(now, boot, "it was set back")
            return now
        if self._jumped_at is None:
            self._jumped_at = boot
            logger.error(
                "the clock of this machine jumped ahead by %d s: nothing expires because of that for %d s "
                "(barnabas.clock.jump.pause.ms). Correct the clock, or, if the new time is right, set that to 0 "
                "for a moment to confirm it",
                ahead // 1000,
                self.pause_ms // 1000,
            )
        if boot - self._jumped_at >= self.pause_ms:
            self._follow(now, boot, "its time counts from now on")
            return now
        return boot + self._offset

    def _follow(self, now: int, boot: int, reason: str) -> None:
        self._offset = now - boot
        if self._jumped_at is not None:
            self._jumped_at = None
            logger.warning("the clock of this machine had jumped ahead: %s", reason)

    def ahead_seconds(self) -> float:
        """Difference between the wall clock and this one; 0 unless the wall clock jumped."""
        return (self._now_ms() - self.now_ms()) / 1000


class SystemClock:
    def __init__(self) -> None:
        self.expiry = ExpiryClock(self.now_ms)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def expiry_ms(self) -> int:
        return self.expiry.now_ms()


class ManualClock:
    """Clock and timers that advance only by `advance`, for tests."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._elapsed_ms = 0
        self._order = itertools.count()
        self._due: list[tuple[int, int, ManualTimer]] = []

    def now_ms(self) -> int:
        return self._start_ms + self._elapsed_ms

    def monotonic(self) -> float:
        return self._elapsed_ms / 1000

    def expiry_ms(self) -> int:
        return self.now_ms()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = ManualTimer(callback)
        heapq.heappush(self._due, (self._elapsed_ms + round(seconds * 1000), next(self._order), timer))
        return timer

    def advance(self, milliseconds: int) -> None:
        """Advance the time and fire due timers in order, each at its due time."""
        end = self._elapsed_ms + milliseconds
        while self._due and self._due[0][0] <= end:
            deadline, _, timer = heapq.heappop(self._due)
            self._elapsed_ms = max(self._elapsed_ms, deadline)
            timer.fire()
        self._elapsed_ms = end


class ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
