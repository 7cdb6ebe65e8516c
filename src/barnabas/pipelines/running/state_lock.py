"""Ensures one run of a pipeline at a time on one machine: a lock that ends with the process.

Two concurrent runs cannot corrupt a lake (`lake/writer.py`), and on most file systems Spark detects two queries with
one checkpoint. On a local disk it may detect them too late, because a rename replaces files there; and an error before
the start is more helpful. Storage shared between machines has no such lock.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from barnabas.spark import PipelineError, local_path

NAME = "running.lock"


class StateLock:
    """Lock on the state of a pipeline, by the URL of its storage. Reentrant."""

    def __init__(self, pipeline: str, storage: str) -> None:
        self._pipeline = pipeline
        self._storage = storage
        self._file: int | None = None
        self._depth = 0

    def check(self) -> None:
        """Raise PipelineError if another process holds the lock. Creates no files."""
        folder = local_path(self._storage)
        if folder is not None and (Path(folder) / NAME).exists():
            with self:
                pass

    def take(self) -> None:
        folder = local_path(self._storage)
        if folder is not None and self._file is None:
            self._file = self._locked(Path(folder))
        self._depth += 1

    def release(self) -> None:
        self._depth = 0
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> None:
        self.take()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth <= 0:
            self.release()

    def _locked(self, folder: Path) -> int:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process = os.read(file, 32).decode() or "unknown"
            os.close(file)
            raise PipelineError(
                f"{self._pipeline} runs already, in process {process}: its state at {self._storage} is for one run at "
                "a time. Stop that one first, or set a separate `storage` for this one."
            ) from None
        except OSError:
            return file  # the file system does not support locks
        os.truncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        return file
