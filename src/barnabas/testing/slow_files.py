"""A real file system whose appends take long, wait to be let go, or fail, by folder: the twin of a slow disk.

files = SlowFileSystem()
files.delay("/data/one", 0.2)                    # every append below takes so much longer
with files.held("/data/one"): ...                # appends do not return before the end of this
files.fail("/data/one", OSError(errno.ENOSPC, "..."))   # the next append fails
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.common.files import Bytes, File, LocalFile, LocalFileSystem


class SlowFile(LocalFile):
    __slots__ = ("_files",)

    def __init__(self, files: SlowFileSystem, path: str, fd: int) -> None:
        super().__init__(path, fd)
        self._files = files

    def append(self, data: Bytes) -> None:
        self._files.before_append(self.path)
        super().append(data)


class SlowFileSystem(LocalFileSystem):
    """Only appends to open files are slow; small files that are replaced are not."""

    def __init__(self) -> None:
        self._delays: dict[str, float] = {}
        self._failures: dict[str, OSError] = {}
        self._held: dict[str, threading.Event] = {}
        self.held_appends = threading.Semaphore(0)
        """Released by each append that begins to wait."""

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SlowFile(self, path, os.open(path, flags, 0o600))

    def delay(self, folder: str, seconds: float) -> None:
        self._delays[folder] = seconds

    def fail(self, folder: str, error: OSError) -> None:
        """Let the next append below the folder fail."""
        self._failures[folder] = error

    @contextmanager
    def held(self, folder: str) -> Iterator[None]:
        """Appends below the folder wait for the end of this."""
        self._held[folder] = released = threading.Event()
        try:
            yield
        finally:
            del self._held[folder]
            released.set()

    def before_append(self, path: str) -> None:
        for folder, released in list(self._held.items()):
            if path.startswith(folder):
                self.held_appends.release()
                released.wait()
        for folder, seconds in list(self._delays.items()):
            if path.startswith(folder):
                time.sleep(seconds)
        for folder in list(self._failures):
            if path.startswith(folder):
                raise self._failures.pop(folder)
