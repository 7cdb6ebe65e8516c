"""One run of a pipeline at a time where its state lies in an object store: a lease, renewed while the run lives.

Spark notes what a micro-batch reads in its checkpoint. On local disks and on HDFS only one of two runs can write such a
note. In an object store a rename is a copy, so that one run may replace the note of another one: the table stays whole,
but the checkpoint tells of other records than those that are there. So a second run is refused, and one that has slept
longer than its lease stops when it wakes up.
"""

from __future__ import annotations

import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType

import msgspec
from pyspark.sql import SparkSession

from barnabas.pipelines.running.state_lock import StateLock
from barnabas.pipelines.running.status import is_alive
from barnabas.spark import HadoopFolder, PipelineError, require_creation_once

NAME = "running.lease"
RENEW_SECONDS = 5.0
LEASE_SECONDS = 30.0
"""Without a renewal for so long, by the clock of the one who waits, a run is dead."""


class Lease(msgspec.Struct, frozen=True):
    owner: str
    host: str
    process: int
    renewed: int = 0

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


def lock_of(
    session: SparkSession, pipeline: str, storage: str, on_loss: Callable[[PipelineError], None]
) -> StateLock | StateLease:
    """What keeps a second run away from the state at a URL."""
    folder = HadoopFolder(session, storage)
    return StateLease(folder, pipeline, on_loss) if folder.has_objects else StateLock(pipeline, storage)


class StateLease:
    """`on_loss` is called, from a thread, when another run has taken the state over."""

    def __init__(self, folder: HadoopFolder, pipeline: str, on_loss: Callable[[PipelineError], None]) -> None:
        self._pipeline = pipeline
        self._folder = folder
        self._on_loss = on_loss
        self._mine = Lease(uuid.uuid4().hex, platform.node(), os.getpid())
        self._stop = threading.Event()
        self._renewing: threading.Thread | None = None
        self._depth = 0

    def take(self) -> None:
        if self._renewing is None:
            self._take()
        self._depth += 1

    def release(self) -> None:
        self._depth = 0
        if self._renewing is None:
            return
        self._stop.set()
        self._renewing.join()
        self._renewing = None
        found = self._read()
        if found is not None and found.owner == self._mine.owner:
            self._folder.delete(NAME)

    def __enter__(self) -> None:
        self.take()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth <= 0:
            self.release()

    def _take(self) -> None:
        require_creation_once(self._folder)
        while not self._folder.create_text(NAME, _text(self._mine)):
            self._await_death()
        self._stop.clear()
        self._renewing = threading.Thread(target=self._renew, name="state-lease", daemon=True)
        self._renewing.start()

    def _await_death(self) -> None:
        """Returns when the lease of another run is gone; PipelineError if that run lives."""
        first = self._read()
        until = time.monotonic() + (0.0 if first is not None and _is_dead(first) else LEASE_SECONDS)
        while time.monotonic() < until:
            now = self._read()
            if now is None:
                return
            if now != first:
                raise PipelineError(
                    f"{self._pipeline} runs already, in {now}: its state at {self._folder.url} is for one run at a "
                    "time. Stop that one first, or give this one a `storage` of its own."
                )
            time.sleep(RENEW_SECONDS / 5)
        self._folder.delete(NAME)

    def _renew(self) -> None:
        lease = self._mine
        while not self._stop.wait(RENEW_SECONDS):
            try:
                found = self._read()
                if found is None or found.owner != lease.owner:
                    self._on_loss(
                        PipelineError(
                            f"{found or 'Another run'} has taken over {self._pipeline} while this run slept for "
                            f"{LEASE_SECONDS:.0f} s or more. It stops: nothing is lost, and nothing is there twice."
                        )
                    )
                    return
                lease = msgspec.structs.replace(lease, renewed=lease.renewed + 1)
                self._folder.write_text(NAME, _text(lease))
            except Exception:  # the store is away for a moment, or the session has ended
                continue

    def _read(self) -> Lease | None:
        text = self._folder.read_text(NAME)
        return None if text is None else msgspec.json.decode(text, type=Lease)


def _is_dead(lease: Lease) -> bool:
    return lease.host == platform.node() and not is_alive(lease.process)


def _text(lease: Lease) -> str:
    return msgspec.json.encode(lease).decode()
