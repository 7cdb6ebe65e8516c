"""Shared parts of both task queue clients: queue, jobs, and limits."""

import struct
import time
from collections.abc import Callable
from typing import NamedTuple

WINDOW = 1000  # maximum number of unconfirmed jobs
PREFETCH = 500  # jobs per worker: `max.poll.records` of share consumers
_PADDING = b"x" * 84  # 100 bytes with number and time


class Queue(NamedTuple):
    port: int
    name: str


class Jobs(NamedTuple):
    number: int
    rate: int = 0
    """Jobs per second; 0 for as many as possible."""


class Times(NamedTuple):
    """Times of publication and of the worker's acknowledgement; nanoseconds of the monotonic clock."""

    job: int
    published: int
    acknowledged: int


def new_job(number: int) -> bytes:
    return struct.pack(">qq", number, time.monotonic_ns()) + _PADDING


def opened(job: bytes) -> tuple[int, int]:
    """Number and publication time of a job."""
    number, published = struct.unpack_from(">qq", job)
    return number, published


class Publishing:
    """Paces publication: by the clock if there is a rate, and never beyond the window."""

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
