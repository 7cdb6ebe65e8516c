"""A flush in three steps, so that the slow one can run in a thread: prepare, run, complete."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.files import File, FileSystem


class FlushJob(NamedTuple):
    """What has to reach the disk so that everything below `upto` survives a loss of power."""

    fs: FileSystem
    files: list[File]
    paths: list[str]
    folders: list[str]  # to be synced too, because files were created in them
    upto: int
    generation: int

    def run(self) -> None:
        """May be called in any thread. An OSError is final: the kernel may have dropped what it could not write."""
        for file in self.files:
            file.sync()
        for path in self.paths:
            self._sync_path(path)
        for folder in self.folders:
            self.fs.sync_folder(folder)

    def _sync_path(self, path: str) -> None:
        try:
            file = self.fs.open(path)
        except FileNotFoundError:
            return  # a snapshot or checkpoint that was replaced or removed meanwhile
        try:
            file.sync()
        finally:
            file.close()
