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


PARENT_CHECK_SECONDS = 5.0
"""A process that was forked from the broker keeps the pipe open; the broker's end is noticed after this time."""

logger = safe_logger(__name__)


class JobCancelled(Exception):  # noqa: N818 - no error
    """The broker does not want the job any more."""


class BrokerGone(Exception):  # noqa: N818 - no error
    """There is nobody to work for."""


class Channel:
    """The two pipes. BrokerGone when the other side has ended."""

    def __init__(self, input_fd: int, output_fd: int) -> None:
        self._input = input_fd
        self._output = output_fd
        self._parent = os.getppid()

    def receive(self) -> Request:
        while not self.has_news(PARENT_CHECK_SECONDS):
            pass
        return decode_request(self._read(length_of(self._read(LENGTH.size))))

    def has_news(self, seconds: float) -> bool:
        """Is there something to receive, or will there be within that time?"""
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
            more = os.read(self._input, count - len(data))
            if not more:
                raise BrokerGone
            data += more
        return data


def serve(channel: Channel, fs: FileSystem) -> None:
    """Do what the broker asks for, until it is gone."""
    try:
        while True:
            request = channel.receive()
            if not isinstance(request, Cancel):  # that job was over already
                channel.send(_answer(request.job, channel, fs))
    except BrokerGone:
        return


def _answer(job: Job, channel: Channel, fs: FileSystem) -> Answer:
    def check() -> None:
        if channel.has_news(0):
            channel.receive()  # only a Cancel can come before the answer
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
        logger.exception("a job failed in a way that it should not")
        return Failed(f"{type(error).__name__}: {error}")
