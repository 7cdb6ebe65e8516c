"""The worker's side of the pipes."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.log.compaction.cleaner import CompactionFailed, compact
from barnabas.log.compaction.worker.messages import (
    LENGTH,
    Answer,
    Cancel,
    Cancelled,
    Done,
    Failed,
    Job,
    Part,
    Progress,
    Request,
    Result,
    decode_request,
    encode,
    length_of,
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
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._due = clock()

    def acquire(self, size: int, check: Callable[[], None]) -> None:
        """Wait until `size` more bytes are allowed; call `check`, which may raise, before and after each sleep."""
        check()
        self._due = max(self._due, self._clock()) + size / self._rate
        while (wait := self._due - self._clock()) > 0:
            self._sleep(min(wait, MAX_SLEEP_SECONDS))
            check()


def do(job: Job, fs: FileSystem, check: Callable[[], None], report: Callable[[Part], None]) -> Result:
    """Run a job; `check` is called regularly and raises if the job was cancelled."""
    throttle = RateLimiter(job.bytes_per_second)
    return compact(job, fs, lambda size: throttle.acquire(size, check), report)


PARENT_CHECK_SECONDS = 5.0
"""Interval of checking that the broker still runs: a process forked from it may keep the pipe open."""

logger = safe_logger(__name__)


class JobCancelled(Exception):  # noqa: N818 - not an error
    """The broker cancelled the job."""


class BrokerGone(Exception):  # noqa: N818 - not an error
    """The broker process has ended."""


class Channel:
    """The two pipes to the broker. Methods raise BrokerGone if it has ended."""

    def __init__(self, input_fd: int, output_fd: int) -> None:
        self._input = input_fd
        self._output = output_fd
        self._parent = os.getppid()

    def receive(self) -> Request:
        while not self.has_news(PARENT_CHECK_SECONDS):
            pass
        return decode_request(self._read(length_of(self._read(LENGTH.size))))

    def has_news(self, seconds: float) -> bool:
        """True if a message arrives within `seconds`."""
        readable, _, _ = select.select([self._input], [], [], seconds)
        if not readable and os.getppid() != self._parent:
            raise BrokerGone
        return bool(readable)

    def send(self, answer: Answer) -> None:
        data = memoryview(encode(answer))
        try:
            while data:
                data = data[os.write(self._output, data) :]
        except BrokenPipeError:
            raise BrokerGone from None

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = os.read(self._input, count - len(data))
            if not chunk:
                raise BrokerGone
            data += chunk
        return data


def serve(channel: Channel, fs: FileSystem) -> None:
    """Run the broker's jobs until it ends."""
    try:
        while True:
            request = channel.receive()
            if not isinstance(request, Cancel):  # a Cancel for a job that has ended
                channel.send(_answer(request.job, channel, fs))
    except BrokerGone:
        return


def _answer(job: Job, channel: Channel, fs: FileSystem) -> Answer:
    def check() -> None:
        if channel.has_news(0):
            channel.receive()  # during a job the broker sends only Cancel
            raise JobCancelled

    try:
        return Done(do(job, fs, check, lambda part: channel.send(Progress(part))))
    except JobCancelled:
        return Cancelled()
    except CompactionFailed as error:
        return Failed(str(error))
    except OSError as error:
        return Failed(str(error), no_room=error.errno in DISK_FULL)
    except BrokerGone:
        raise
    except Exception as error:
        logger.exception("unexpected error in a compaction job")
        return Failed(f"{type(error).__name__}: {error}")
