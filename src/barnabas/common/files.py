"""File system interface: all disk access of Barnabas goes through it.

`LocalFileSystem` is the real implementation. `barnabas.testing.files.FaultyFileSystem` is in memory and simulates lost
unsynced writes, full disks and failures of any operation. The interface has only the methods that a log needs.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import Final, Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview

# Only the broker's account may read its data: clients need the broker's authorization. Existing files become private
# at the first start (log/dirs/properties).
FILE_MODE = 0o600
FOLDER_MODE = 0o700


_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class ReadableFile(Protocol):
    """File open for reading. `size` is tracked in memory because no other process writes to it."""

    path: str
    size: int

    def fileno(self) -> int: ...

    def read(self, count: int, position: int) -> bytes:
        """Return up to `count` bytes from `position`; fewer only at the end of the file."""
        ...


class File(ReadableFile, Protocol):
    """File open for reading and writing."""

    def append(self, data: Bytes) -> None:
        """Write all of `data` at the end; after an error the file has its previous size."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when the contents are on disk. An error is final: do not call it again."""
        ...

    def close(self) -> None: ...


class FileSlice:
    """`length` bytes of a file from `position`, which a fetch sends without reading them.

    The file stays open while the slice is referenced.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, file: ReadableFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self, count: int | None = None, at: int = 0) -> bytes:
        """Return up to `count` bytes (all by default), starting `at` bytes into the slice."""
        left = max(self.length - at, 0)
        return self.file.read(left if count is None else min(count, left), self.position + at)

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path}, {self.position}, {self.length})"


EMPTY: Final = b""
Slice: TypeAlias = FileSlice | bytes
"""Result of a log read: a slice, or empty bytes."""


class FileSystem(Protocol):
    def open(self, path: str, *, create: bool = False) -> File: ...
    def exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def modified_ms(self, path: str) -> int: ...
    def list(self, folder: str) -> list[str]: ...
    def is_folder(self, path: str) -> bool: ...
    def make_folders(self, path: str) -> None: ...
    def read_bytes(self, path: str) -> bytes: ...

    def is_private(self, path: str) -> bool:
        """True if other accounts of the machine have no permissions on it."""
        ...

    def make_private(self, path: str, *, tree: bool = False) -> None:
        """Remove all permissions of group and others, with `tree` recursively. Does not follow links."""
        ...

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replace a whole file: readers and crashes see either the old contents or the new."""
        ...

    def rename(self, source: str, target: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_tree(self, path: str) -> None: ...

    def sync_folder(self, path: str) -> None:
        """Sync a folder, so that created, renamed and removed names survive a crash."""
        ...

    def capacity(self, path: str) -> tuple[int, int]:
        """Return (total, available) bytes of the volume."""
        ...


NO_DESCRIPTOR: Final = -1


class MemoryFile:
    """Bytes in memory with the interface of a file; not copied."""

    __slots__ = ("__weakref__", "_data", "path", "size")

    def __init__(self, path: str, data: Bytes) -> None:
        self.path = path
        self._data = memoryview(data)
        self.size = len(data)

    def fileno(self) -> int:
        return NO_DESCRIPTOR

    def read(self, count: int, position: int) -> bytes:
        return bytes(self.view(count, position))

    def view(self, count: int, position: int) -> memoryview:
        return self._data[position : position + count]


_pwrite = os.pwrite
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class LocalFile:
    __slots__ = ("__weakref__", "_fd", "path", "size")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self.size = os.fstat(fd).st_size

    def fileno(self) -> int:
        return self._fd

    def append(self, data: Bytes) -> None:
        length, size = len(data), self.size
        try:
            written = _pwrite(self._fd, data, size)
            while written != length:
                written += _pwrite(self._fd, memoryview(data)[written:], size + written)
        except OSError:
            os.ftruncate(self._fd, size)
            raise
        self.size = size + length

    def read(self, count: int, position: int) -> bytes:
        data = os.pread(self._fd, count, position)
        while len(data) < count and (more := os.pread(self._fd, count - len(data), position + len(data))):
            data += more
        return data

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = size

    def sync(self) -> None:
        _sync_data(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        # A fetch that is still being sent may hold the last reference to a removed segment's file.
        self.close()


def private_opener(path: str, flags: int) -> int:
    """Opener for `open(..., opener=private_opener)`: creates files that only their owner can access."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


class LocalFileSystem:
    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return LocalFile(path, os.open(path, flags, FILE_MODE))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder))

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_folders(self, path: str) -> None:
        os.makedirs(path, FOLDER_MODE, exist_ok=True)  # the mode applies to the last folder only

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def is_private(self, path: str) -> bool:
        return not os.stat(path).st_mode & _OF_OTHERS

    def make_private(self, path: str, *, tree: bool = False) -> None:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return
        if tree and stat.S_ISDIR(mode):
            for name in self.list(path):
                self.make_private(f"{path}/{name}", tree=True)
        if mode & _OF_OTHERS:
            os.chmod(path, stat.S_IMODE(mode) & ~_OF_OTHERS)

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb", opener=private_opener) as file:
            file.write(data)
            file.flush()
            if sync:
                _sync_data(file.fileno())
        os.replace(temporary, path)
        if sync:
            self.sync_folder(os.path.dirname(path))

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_folder(self, path: str) -> None:
        fd = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def capacity(self, path: str) -> tuple[int, int]:
        usage = os.statvfs(path)
        return usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize
