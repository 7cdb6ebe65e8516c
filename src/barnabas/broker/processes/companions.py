"""Companions of a node with several processes.

Process 0 orders them, and the supervisor keeps them running: they outlive process 0, and end with the node.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from dataclasses import dataclass, field

from barnabas.broker.companions import (
    FIRST_PAUSE,
    LONG_ENOUGH,
    MAX_PAUSE,
    STOP_TIMEOUT,
    CompanionStart,
    hang_up,
)
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)


@dataclass(slots=True)
class _Kept:
    start: CompanionStart
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    spawn_at: float | None = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_PAUSE, MAX_PAUSE, jitter=0))


class KeptCompanions:
    """For one thread, without an event loop. Times are those of the monotonic clock."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._stopping_since: float | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, start: CompanionStart) -> None:
        """Run a companion from the next `run_due` on; one of the same name is restarted with the new greeting."""
        kept = self._kept.setdefault(start.name, _Kept(start))
        kept.start = start
        if kept.process is not None:
            hang_up(kept.process)

    def run_due(self, now: float) -> None:
        for kept in self._kept.values():
            if kept.spawn_at is None or kept.spawn_at > now or self._stopping_since is not None:
                continue
            try:
                kept.process, kept.spawn_at, kept.began = kept.start.spawn(), None, now
            except OSError as error:
                kept.spawn_at = now + kept.backoff.next_delay()
                logger.error("cannot start the %s: %s", kept.start.name, error)

    @property
    def due(self) -> float | None:
        times = [each.spawn_at for each in self._kept.values() if each.spawn_at is not None]
        return None if self._stopping_since is not None else min(times, default=None)

    def ended(self, pid: int, code: int, now: float) -> None:
        """A child process has been reaped."""
        for kept in self._kept.values():
            if kept.process is None or kept.process.pid != pid:
                continue
            hang_up(kept.process)
            kept.process.returncode = code
            kept.process = None
            if now - kept.began > LONG_ENOUGH:
                kept.backoff.reset()
            pause = kept.backoff.next_delay()
            kept.spawn_at = now + pause
            if self._stopping_since is None:
                logger.error(
                    "the %s exited with status %d; restarting it in %g s", kept.start.name, code, pause
                )

    def stop(self, now: float) -> bool:
        """Let all exit, and kill those that do not in time. Call it until it returns True: none runs any more."""
        running = [each for each in self._kept.values() if each.process is not None]
        if self._stopping_since is None:
            self._stopping_since = now
            for kept in running:
                assert kept.process is not None
                hang_up(kept.process)
        if now - self._stopping_since > STOP_TIMEOUT:
            for kept in running:
                assert kept.process is not None
                logger.warning("the %s did not exit in time; killing it", kept.start.name)
                kept.process.kill()
        return not running

    def forget(self) -> None:
        """Close the pipes in a forked process: a companion exits when its pipe is closed everywhere."""
        for kept in self._kept.values():
            if kept.process is not None and kept.process.stdin is not None:
                with suppress(OSError):
                    kept.process.stdin.close()
