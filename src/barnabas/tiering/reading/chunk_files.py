"""Files of the chunk cache: one per chunk, in a folder that is emptied at every start.

Files stay open while referenced; the most recently used ones also stay open otherwise. Names are numbers: the contents
of a file are known only in memory, and no chunk is found by scanning the folder.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from itertools import count
from weakref import ReferenceType, ref

from barnabas.common.files import Bytes, File, FileSystem

MAX_OPEN = 256
"""Unreferenced files that stay open."""


class ChunkFile:
    """Downloaded chunk."""

    __slots__ = ("is_read", "path", "reference", "size")

    def __init__(self, path: str, size: int, file: File) -> None:
        self.path = path
        self.size = size
        self.is_read = False  # to its end
        self.reference: ReferenceType[File] = ref(file)


class ChunkFiles:
    """`create` and `remove` block and run in threads; all other methods run on the loop."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder
        self._numbers = count()
        self._kept_open: OrderedDict[ChunkFile, File] = OrderedDict()

    def empty(self) -> None:
        """Remove files of an earlier process: their contents are unknown."""
        if self._fs.exists(self._folder):
            self._fs.remove_tree(self._folder)
        self._fs.make_folders(self._folder)

    def new_path(self) -> str:
        return f"{self._folder}/{next(self._numbers):010}.chunk"

    def create(self, path: str, data: Bytes) -> File:
        """Write a file; OSError if the disk is full, without leaving a partial file."""
        file = self._fs.open(path, create=True)
        try:
            file.append(data)
        except OSError:
            self.remove([path])
            raise
        return file

    def remove(self, paths: list[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):  # removed externally
                self._fs.remove(path)

    def open(self, chunk: ChunkFile) -> File | None:
        """Open the file; None if it was removed."""
        file = chunk.reference()
        if file is None:
            try:
                file = self._fs.open(chunk.path)
            except OSError:
                return None
            chunk.reference = ref(file)
        self.keep_open(chunk, file)
        return file

    def keep_open(self, chunk: ChunkFile, file: File) -> None:
        self._kept_open[chunk] = file
        self._kept_open.move_to_end(chunk)
        if len(self._kept_open) > MAX_OPEN:
            self._kept_open.popitem(last=False)

    def is_in_use(self, chunk: ChunkFile) -> bool:
        """True if its file is referenced elsewhere: by a slice being sent or by a reader."""
        self._kept_open.pop(chunk, None)
        return chunk.reference() is not None

    def close(self) -> None:
        self._kept_open.clear()
