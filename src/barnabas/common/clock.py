"""Time as two seams: a clock to read and timers to set. Each has a twin that tests move by hand."""

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
        """Wall-clock time in epoch milliseconds: what goes into records and files."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump: what timeouts are measured with."""
        ...

    def expiry_ms(self) -> int:
        """Wall-clock time for what is deleted by its age. It does not follow a jump ahead at once (`ExpiryClock`)."""
        ...


def boot_seconds() -> float:
    """Seconds that never jump and that pass while the machine is suspended, which those of `monotonic` do not on Linux:
    what others count of us meanwhile, such as a session's timeout, is measured with these."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if HAS_BOOT_CLOCK else time.monotonic()


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer: ...


class TurnLimit(NamedTuple):
    """How much of long work is done before others have a turn: a few milliseconds, or so many steps if that is less.
    The clock of a simulation stands still meanwhile, so there the steps count."""

    seconds: float = 0.003
    steps: int = 1000
    piece_bytes: int = 1 << 20
    """Of batches, what is appended in a step, unless they are many (`replication/follower.py`)."""


class Turn:
    """The present turn of some long work."""

    __slots__ = ("_limit", "_monotonic", "_steps", "_until")

    def __init__(self, limit: TurnLimit, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self.begin()

    def begin(self) -> None:
        self._steps = 0
        self._until = self._monotonic() + self._limit.seconds

    def is_over(self) -> bool:
        """Asked after each step."""
        self._steps += 1
        return self._steps >= self._limit.steps or self._monotonic() >= self._until


class ExpiryClock:
    """The wall clock, except that it does not jump ahead by more than `longest_jump_ms` at once.

    A clock that is set to a wrong time in the future would expire everything at that moment. So the wall clock is
    compared with the time since boot, which cannot be set. After a jump, time continues as before it until the clock
    is set back, or until `pause_ms` have passed: an operator who sets that to 0 confirms the new time. Where the time
    since boot is not known, this is the wall clock.
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
        """Of the wall clock from the time since boot, before the jump."""
        self._jumped_at: int | None = None

    def _boot_ms(self) -> int:
        return round(self._boot() * 1000) if self._boot is not None else 0

    def now_ms(self) -> int:
        """To be called often: each call takes over small corrections since the last one."""
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

    def _follow(self, now: int, boot: int, why: str) -> None:
        self._offset = now - boot
        if self._jumped_at is not None:
            self._jumped_at = None
            logger.warning("the clock of this machine had jumped ahead: %s", why)

    def ahead_seconds(self) -> float:
        """How far the wall clock is ahead of this one: 0 unless it has jumped."""
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
    """A clock, and its timers, that stand still until a test moves them."""

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
        """Move time on, firing each timer at its own moment and in order."""
        end = self._elapsed_ms + milliseconds
        while self._due and self._due[0][0] <= end:
            moment, _, timer = heapq.heappop(self._due)
            self._elapsed_ms = max(self._elapsed_ms, moment)
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
