"""CPU time budget of pushed metrics, in total and per principal.

A push of few bytes may decompress to many points. Its cost is known only afterwards, so the limit is on the
CPU time spent, averaged over a minute. The budget is that of the broker. When it is spent, a principal may
still push if its own part is less than an equal share, so that one principal cannot take everything.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from math import exp
from time import thread_time
from typing import TypeVar

from barnabas.common.cooperative import Steps
from barnabas.common.errors import ErrorCode, KafkaError

AVERAGING_SECONDS = 60.0
NEGLIGIBLE = 0.001  # CPU seconds; a sharer below this is removed

R = TypeVar("R")


class CpuBudget:
    """CPU seconds of a broker, shared by principals (`sharer` names one)."""

    def __init__(self, percent: float, monotonic: Callable[[], float]) -> None:
        self.percent = percent
        self._now = monotonic
        self._then = monotonic()
        self._spent: dict[str, float] = {}

    def check(self, sharer: str) -> None:
        """Raise if the budget is spent and this sharer has used its share."""
        self._decay()
        allowed = self.percent / 100 * AVERAGING_SECONDS
        if sum(self._spent.values()) < allowed:
            return
        sharers = len(self._spent.keys() | {sharer})
        if self._spent.get(sharer, 0.0) >= allowed / sharers:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"pushed metrics of {sharer} take too much CPU time (barnabas.telemetry.cpu.percent)",
            )

    def charge(self, sharer: str, seconds: float) -> None:
        self._decay()
        self._spent[sharer] = self._spent.get(sharer, 0.0) + seconds

    def charged(self, sharer: str, steps: Steps[R]) -> Generator[None, None, R]:
        """Run the steps, and charge their CPU time."""
        while True:
            began = thread_time()
            try:
                next(steps)
            except StopIteration as end:
                result: R = end.value
                return result
            finally:
                self.charge(sharer, thread_time() - began)
            yield

    def _decay(self) -> None:
        now = self._now()
        if now - self._then < AVERAGING_SECONDS / 100:
            return
        kept = exp((self._then - now) / AVERAGING_SECONDS)
        self._then = now
        self._spent = {
            sharer: left for sharer, spent in self._spent.items() if (left := spent * kept) > NEGLIGIBLE
        }
