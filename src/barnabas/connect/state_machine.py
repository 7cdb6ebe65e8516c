"""State machine of a connector: start, backoff, restart and failure. No I/O; times are monotonic seconds.

        starting -> running -> retrying -> starting ...     after a failure, with exponential backoff
        retrying -> failed                                  after `restart: attempts` restarts without a batch
    running  -> failed                                  more rows with errors than `errors: tolerate` allows
    any      -> paused -> starting                      by `barnabas connect pause` and `resume`
    failed   -> starting                                by `barnabas connect restart`

A completed batch resets the count of failures in a row.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from barnabas.client.status import State
from barnabas.common.durations import seconds_of
from barnabas.common.retry import delay_after
from barnabas.connect.declaration import Restart


@dataclass(frozen=True)
class QueryProgress:
    """Progress of a running query: its last batch and, if known, its lag in records."""

    batch: int
    lag: int | None


class ConnectorState:
    def __init__(self, restart: Restart, stalled_after: float) -> None:
        self.state: State = "starting"
        self.error = ""
        self.failures = 0
        self.restarts = 0
        self._first, self._longest = seconds_of(restart.first), seconds_of(restart.longest)
        self._most = restart.attempts
        self._stalled_after = stalled_after
        self._due = 0.0
        self._batch: int | None = None
        self._moved = 0.0

    def should_start(self, now: float) -> bool:
        return self.state == "starting" or (self.state == "retrying" and now >= self._due)

    def started(self, now: float) -> None:
        self.state, self._batch, self._moved = "running", None, now

    def progressed(self, now: float, seen: QueryProgress) -> None:
        if self._batch is None or seen.batch > self._batch:
            if self._batch is not None:
                self.failures, self.error = 0, ""
            self._batch, self._moved = seen.batch, now
        elif not seen.lag:
            self._moved = now  # idle

    def stalled_for(self, now: float) -> float | None:
        """Return the seconds without a batch despite lag if they exceed the limit, otherwise None."""
        quiet = now - self._moved
        return quiet if self.state == "running" and quiet >= self._stalled_after else None

    def failed(self, now: float, error: str) -> None:
        self.error = error
        self.failures += 1
        if self._most is not None and self.failures > self._most:
            self.state = "failed"
            return
        self.state = "retrying"
        self._due = now + delay_after(self.failures - 1, self._first, self._longest)
        self.restarts += 1

    def gave_up(self, error: str) -> None:
        self.state, self.error = "failed", error

    def paused(self) -> None:
        self.state = "paused"

    def begin_again(self) -> None:
        """Restart on request: immediately, and reset the failure count."""
        self.state, self.failures, self.error = "starting", 0, ""

    def stopped(self) -> None:
        self.state = "stopped"


class Tolerance:
    """Sliding count of rows with errors. `allowed` is (rows, seconds); None: no limit."""

    def __init__(self, allowed: tuple[int, float] | None) -> None:
        self._allowed = allowed
        self._seen: deque[tuple[float, int]] = deque()
        self._total = 0

    def take(self, now: float, total: int) -> bool:
        """Record `total`, the errors since the start of the query; return False if there are too many."""
        if self._allowed is None:
            return True
        if total > self._total:
            self._seen.append((now, total - self._total))
        self._total = total
        attempts, span = self._allowed
        while self._seen and self._seen[0][0] <= now - span:
            self._seen.popleft()
        return sum(count for _, count in self._seen) <= attempts

    def begin_again(self) -> None:
        """Restart the query's total at 0; errors within the window still count."""
        self._total = 0

    def forgive(self) -> None:
        self._seen.clear()
