"""Local file system whose appends can be delayed, blocked or failed by folder, to simulate a slow disk.

files = SlowFileSystem()
files.delay("/data/one", 0.2)                    # delays every append below the folder
with files.held("/data/one"): ...                # blocks appends until the end of the block
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
    """Affects only appends to open files, not atomic writes of small files."""

    def __init__(self) -> None:
        self._delays: dict[str, float] = {}
        self._failures: dict[str, OSError] = {}
        self._held: dict[str, threading.Event] = {}
        self.held_appends = threading.Semaphore(0)
        """Released by each append that starts to wait."""

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SlowFile(self, path, os.open(path, flags, 0o600))

    def delay(self, folder: str, seconds: float) -> None:
        self._delays[folder] = seconds

    def fail(self, folder: str, error: OSError) -> None:
        """Fail the next append below the folder."""
        self._failures[folder] = error

    @contextmanager
    def held(self, folder: str) -> Iterator[None]:
        """Block appends below the folder until the end of the block."""
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
