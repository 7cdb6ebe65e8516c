"""How the worker process does its jobs."""

from __future__ import annotations

import time
from collections.abc import Callable

from barnabas.common.files import FileSystem
from barnabas.log.compaction.cleaner import compact
from barnabas.log.compaction.worker.messages import Job, Part, Result

MAX_SLEEP_SECONDS = 0.1  # seconds; between two naps a job looks whether it was cancelled


class RateLimiter:
    """Keeps a job below a rate, by letting it sleep."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._due = clock()

    def pass_by(self, size: int, check: Callable[[], None]) -> None:
        """Wait until `size` more bytes are allowed; `check` is called all the while, and may raise."""
        check()
        self._due = max(self._due, self._clock()) + size / self._rate
        while (wait := self._due - self._clock()) > 0:
            self._sleep(min(wait, MAX_SLEEP_SECONDS))
            check()


def do(job: Job, fs: FileSystem, check: Callable[[], None], report: Callable[[Part], None]) -> Result:
    """Do a job; `check` is called every now and then, and raises when the job must stop."""
    throttle = RateLimiter(job.bytes_per_second)
    return compact(job, fs, lambda size: throttle.pass_by(size, check), report)
