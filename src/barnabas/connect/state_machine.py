"""When a connector starts, waits, starts again or gives up. No I/O; times are seconds of one clock.

    starting -> running -> retrying -> starting ...     after a failure, with a pause that doubles
    retrying -> failed                                  after `restart: attempts` failures in a row
    running  -> failed                                  more rows with errors than `errors: tolerate` allows
    any      -> paused -> starting                      by `barnabas connect pause` and `resume`
    failed   -> starting                                by `barnabas connect restart`

A failure is the first of a row when a batch was done since the last one.
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
    """What is seen of a running query: its last batch, and how many records wait, if that is known."""

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
            self._moved = now  # nothing to do

    def stalled_for(self, now: float) -> float | None:
        """Seconds without a batch although records wait, if they are too many."""
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
        """Asked for by a person: at once, and with patience."""
        self.state, self.failures, self.error = "starting", 0, ""

    def stopped(self) -> None:
        self.state = "stopped"


class Tolerance:
    """How many rows with errors there were lately. `allowed`: so many in so many seconds; None: any number."""

    def __init__(self, allowed: tuple[int, float] | None) -> None:
        self._allowed = allowed
        self._seen: deque[tuple[float, int]] = deque()
        self._total = 0

    def take(self, now: float, total: int) -> bool:
        """`total` since the start of the query; False when there were too many."""
        if self._allowed is None:
            return True
        if total > self._total:
            self._seen.append((now, total - self._total))
        self._total = total
        most, span = self._allowed
        while self._seen and self._seen[0][0] <= now - span:
            self._seen.popleft()
        return sum(count for _, count in self._seen) <= most

    def begin_again(self) -> None:
        """The query counts from 0 again; what was seen before still counts."""
        self._total = 0

    def forgive(self) -> None:
        self._seen.clear()
