"""Ensures one run of a pipeline at a time if its state is in an object store: a lease, renewed during the run.

Spark records the input of each micro-batch in its checkpoint. On local disks and HDFS only one of two runs can write
the record. In an object store a rename is a copy, so that one run may overwrite the record of another: the table stays
intact, but the checkpoint no longer matches its records. A second run is therefore refused, and a run suspended for
longer than its lease stops when it resumes.
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
"""Time without renewal, by the clock of the waiting run, after which a run is considered dead."""


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
    """Return the lock or lease for the state at a URL."""
    folder = HadoopFolder(session, storage)
    return StateLease(folder, pipeline, on_loss) if folder.has_objects else StateLock(pipeline, storage)


class StateLease:
    """Lease on the state of a pipeline. A background thread calls `on_loss` when another run has taken over."""

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
        """Wait until the lease of another run is released or expires; PipelineError if that run is alive."""
        first = self._read()
        until = time.monotonic() + (0.0 if first is not None and _is_dead(first) else LEASE_SECONDS)
        while time.monotonic() < until:
            now = self._read()
            if now is None:
                return
            if now != first:
                raise PipelineError(
                    f"{self._pipeline} runs already, in {now}: its state at {self._folder.url} is for one run at a "
                    "time. Stop that one first, or set a separate `storage` for this one."
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
            except Exception:  # the store is temporarily unavailable, or the session has ended
                continue

    def _read(self) -> Lease | None:
        text = self._folder.read_text(NAME)
        return None if text is None else msgspec.json.decode(text, type=Lease)


def _is_dead(lease: Lease) -> bool:
    return lease.host == platform.node() and not is_alive(lease.process)


def _text(lease: Lease) -> str:
    return msgspec.json.encode(lease).decode()
