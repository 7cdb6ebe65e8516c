"""Log lines about misbehaving clients, few enough that nobody can fill a disk or a terminal with them."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0
LINES_IN_A_PERIOD = 10


class Complaints:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._period_ends = 0.0
        self._written = 0
        self._suppressed = 0

    def log(self, level: int, text: str, *args: object) -> None:
        """Write a line, unless there have been many of late; then only their number is told, later."""
        now = self._now()
        if now >= self._period_ends:
            self.tell_suppressed()
            self._period_ends = now + PERIOD_SECONDS
            self._written = 0
        if self._written < LINES_IN_A_PERIOD:
            self._written += 1
            log.log(level, text, *args)
        else:
            self._suppressed += 1

    def tell_suppressed(self) -> None:
        if self._suppressed:
            log.warning("%d more connections were refused or closed for such reasons", self._suppressed)
            self._suppressed = 0
