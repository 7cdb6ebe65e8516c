"""What the clients of both task queues share: which queue, which jobs, and the same limits."""

import struct
import time
from collections.abc import Callable
from typing import NamedTuple

WINDOW = 1000  # jobs that are published and not yet confirmed
PREFETCH = 500  # jobs in a worker's hands: `max.poll.records` of share consumers
_PADDING = b"x" * 84  # with number and time: 100 bytes


class Queue(NamedTuple):
    port: int
    name: str


class Jobs(NamedTuple):
    number: int
    rate: int = 0
    """A second; 0 for as many as possible."""


class Times(NamedTuple):
    """When a job was published, and when its worker knew it acknowledged; nanoseconds of the monotonic clock."""

    job: int
    published: int
    acknowledged: int


def new_job(number: int) -> bytes:
    return struct.pack(">qq", number, time.monotonic_ns()) + _PADDING


def opened(job: bytes) -> tuple[int, int]:
    """Its number, and when it was published."""
    number, published = struct.unpack_from(">qq", job)
    return number, published


class Publishing:
    """Which of the jobs are due: by the clock if there is a rate, and never more than the window has room for."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._begin = time.monotonic()
        self.sent = self.confirmed = 0

    @property
    def is_over(self) -> bool:
        return self.confirmed >= self._jobs.number

    def confirm(self, count: int = 1) -> None:
        self.confirmed += count

    def send_due(self, send: Callable[[bytes], None]) -> None:
        due = self._jobs.number
        if self._jobs.rate:
            due = min(due, int((time.monotonic() - self._begin) * self._jobs.rate))
        due = min(due, self.confirmed + WINDOW)
        while self.sent < due:
            send(new_job(self.sent))
            self.sent += 1
