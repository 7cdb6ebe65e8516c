"""The worker's side of the pipes."""

from __future__ import annotations

import time
from collections.abc import Callable

from barnabas.common.files import FileSystem
from barnabas.common.pipe_channel import ParentExitedError, PipeChannel
from barnabas.common.rates import Pacing
from barnabas.common.safe_logging import safe_logger
from barnabas.log.compaction.cleaner import CompactionFailed, compact
from barnabas.log.compaction.worker.messages import (
    Answer,
    CancelJob,
    Cancelled,
    Failed,
    Job,
    JobDone,
    JobProgress,
    Part,
    Result,
    decode_request,
    encode,
)
from barnabas.log.failures import DISK_FULL

# -- Jobs of the worker process -------------------------------------------------------------------------

MAX_SLEEP_SECONDS = 0.1  # cancellation is checked between two sleeps


class RateLimiter:
    """Limits the rate of a job by sleeping."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._pacing = Pacing(bytes_per_second, clock)
        self._sleep = sleep

    def acquire(self, size: int, check: Callable[[], None]) -> None:
        """Wait until `size` more bytes are allowed; call `check`, which may raise, before and after each sleep."""
        check()
        self._pacing.delay(size)
        while (wait := self._pacing.remaining) > 0:
            self._sleep(min(wait, MAX_SLEEP_SECONDS))
            check()


def do(job: Job, fs: FileSystem, check: Callable[[], None], report: Callable[[Part], None]) -> Result:
    """Run a job; `check` is called regularly and raises if the job was cancelled."""
    throttle = RateLimiter(job.bytes_per_second)
    return compact(job, fs, lambda size: throttle.acquire(size, check), report)


logger = safe_logger(__name__)


class JobRevoked(Exception):  # noqa: N818 - not an error
    """The broker cancelled the job."""


def serve(channel: PipeChannel, fs: FileSystem) -> None:
    """Run the broker's jobs until it ends."""
    try:
        while True:
            request = decode_request(channel.receive())
            if not isinstance(request, CancelJob):  # a Cancel for a job that has ended
                channel.send(encode(_answer(request.job, channel, fs)))
    except ParentExitedError:
        return


def _answer(job: Job, channel: PipeChannel, fs: FileSystem) -> Answer:
    def check() -> None:
        if channel.has_input(0):
            channel.receive()  # during a job the broker sends only Cancel
            raise JobRevoked

    try:
        return JobDone(do(job, fs, check, lambda part: channel.send(encode(JobProgress(part)))))
    except JobRevoked:
        return Cancelled()
    except CompactionFailed as error:
        return Failed(str(error))
    except OSError as error:
        return Failed(str(error), no_room=error.errno in DISK_FULL)
    except ParentExitedError:
        raise
    except Exception as error:
        logger.exception("unexpected error in a compaction job")
        return Failed(f"{type(error).__name__}: {error}")
