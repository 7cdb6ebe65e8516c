"""Read plain and gzip files by offset."""

from __future__ import annotations

import gzip
import os
import zlib
from typing import NamedTuple

_SKIP = 1024 * 1024


class FileId(NamedTuple):
    device: int
    inode: int


class Changed(NamedTuple):
    """Fingerprint of a file's state. The modification time detects a truncated file that has its old size again."""

    size: int
    modified_ns: int


class UnfinishedError(Exception):
    """Incomplete or corrupt gzip file: still being written, or truncated."""


class PlainFile:
    """Open file; stays readable after it is renamed or unlinked."""

    compressed = False

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        found = os.fstat(self._descriptor)
        self.id = FileId(found.st_dev, found.st_ino)

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def consumed(self, offset: int) -> int:
        """Number of bytes on disk before this offset."""
        return offset

    @property
    def changed(self) -> Changed:
        return _changed(self._descriptor)

    @property
    def is_linked(self) -> bool:
        return os.fstat(self._descriptor).st_nlink > 0

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, offset)

    def close(self) -> None:
        os.close(self._descriptor)


class GzipFile:
    """Gzip file addressed by decompressed offset. Seeking backwards decompresses from the beginning."""

    compressed = True

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - closed by close()
        found = os.fstat(self._file.fileno())
        self.id = FileId(found.st_dev, found.st_ino)
        self._begin()

    def _begin(self) -> None:
        self._file.seek(0)
        self._stream = gzip.GzipFile(fileobj=self._file)
        self._position = 0
        self._before = b""
        """Bytes read last: the tail digest rereads the bytes before the new offset."""

    @property
    def size(self) -> int:
        """Compressed size: the decompressed size is known only at the end."""
        return os.fstat(self._file.fileno()).st_size

    def consumed(self, offset: int) -> int:
        """Number of compressed bytes read so far."""
        return self._file.tell()

    @property
    def changed(self) -> Changed:
        return _changed(self._file.fileno())

    @property
    def is_linked(self) -> bool:
        return os.fstat(self._file.fileno()).st_nlink > 0

    def read(self, offset: int, length: int) -> bytes:
        begin = self._position - len(self._before)
        if begin <= offset and offset + length <= self._position:
            return self._before[offset - begin : offset - begin + length]
        try:
            return self._read(offset, length)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._begin()
            raise UnfinishedError(str(error)) from error

    def _read(self, offset: int, length: int) -> bytes:
        if offset < self._position:
            self._begin()
        while self._position < offset:
            skipped = self._stream.read(min(_SKIP, offset - self._position))
            if not skipped:
                return b""
            self._position += len(skipped)
            self._before = skipped
        data = self._stream.read(length)
        self._position += len(data)
        self._before = data if len(data) >= _SKIP else (self._before + data)[-2 * _SKIP :]
        return data

    def close(self) -> None:
        self._stream.close()
        self._file.close()


def _changed(descriptor: int) -> Changed:
    found = os.fstat(descriptor)
    return Changed(found.st_size, found.st_mtime_ns)


OpenFile = PlainFile | GzipFile


def open_contents(path: str) -> OpenFile:
    return GzipFile(path) if path.endswith(".gz") else PlainFile(path)
