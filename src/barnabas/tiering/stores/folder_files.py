"""Files of a folder used as an object store. Blocking: `folder_store` calls it from threads.

<root>/<key>          an object: only its bytes
<root>/.writing/<n>   an object being written; renamed to its key when it is complete and synced
<root>/.lock          locked (flock) while names change, so that several processes of one machine can share the folder

Objects are immutable. The version of an object is its file's modification time, which every write sets above that of
the replaced object, and its inode. Across machines, neither locks nor times are reliable.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeAlias

from barnabas.common.files import FILE_MODE, FOLDER_MODE, LocalFile, LocalFileSystem
from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectInfo,
    StaleVersionError,
    StoreDeniedError,
    StoreError,
    StoreUnavailableError,
    Versioned,
)

WRITING = ".writing"
LOCK = ".lock"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)

Condition: TypeAlias = Callable[[str, os.stat_result | None], None]
"""Raises if the current object, or its absence, does not meet the condition of a write."""


class Writing(LocalFile):
    """Object without a key yet. If it is never finished, its file is deleted."""

    __slots__ = ()

    def discard(self) -> None:
        with suppress(FileNotFoundError):
            os.remove(self.path)

    def __del__(self) -> None:
        self.discard()
        super().__del__()


class FolderFiles:
    def __init__(self, root: str) -> None:
        self.root = root
        self._files = LocalFileSystem()
        self._is_swept = False

    # -- reading --------------------------------------------------------------------------------------

    def read(self, key: str) -> Versioned:
        with open(self._path(key), "rb") as file:
            return Versioned(file.read(), _version(os.fstat(file.fileno())))

    def read_range(self, key: str, start: int, end: int) -> bytes:
        with open(self._path(key), "rb") as file:
            file.seek(start)
            data = file.read(end - start)
        if len(data) < end - start:
            raise StoreError(f"{key} ends at {start + len(data)}, before {end}: it was truncated.")
        return data

    def entries(self, folder: str, after: str) -> list[ObjectInfo | str]:
        """Return the objects and subfolders (names with a trailing `/`) of a folder, sorted by key."""
        found: dict[str, ObjectInfo | str] = {}
        with suppress(FileNotFoundError), os.scandir(f"{self.root}/{folder}") as entries:
            for entry in entries:
                key = f"{folder}{entry.name}"
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if f"{key}/" > after or after.startswith(f"{key}/"):
                        found[f"{key}/"] = f"{key}/"
                elif key > after:
                    with suppress(FileNotFoundError):  # removed in the meantime
                        found[key] = _info(key, entry.stat())
        return [found[key] for key in sorted(found)]

    # -- writing --------------------------------------------------------------------------------------

    def write(self, key: str, data: bytes, condition: Condition) -> str:
        condition(key, _status(self._path(key)))  # most conflicts are detected here, before writing
        file = self.begin(key)
        try:
            file.append(data)
            return self.finish(file, key, condition)
        except BaseException:
            file.discard()
            raise

    def begin(self, key: str) -> Writing:
        """Create a file for writing. Its lock shows that its process runs: files of killed processes are not locked."""
        self._path(key)
        if not self._is_swept:
            self._is_swept = True
            self.remove_leftovers()
        with self._locked():
            self._files.make_folders(f"{self.root}/{WRITING}")
            path = f"{self.root}/{WRITING}/{uuid.uuid4().hex}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            file = Writing(path, os.open(path, flags, FILE_MODE))
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            return file

    def finish(self, file: Writing, key: str, condition: Condition) -> str:
        """Rename the file to its key if the condition holds. The contents are synced before the rename."""
        path = self._path(key)
        file.sync()
        with self._locked():
            current = _status(path)
            condition(key, current)
            changed = _make_folder_of(path)
            version = _stamp(file, current)
            os.replace(file.path, path)
        for folder in changed:
            with suppress(FileNotFoundError):  # the object was removed together with its folder
                self._files.sync_folder(folder)
        return version

    def remove(self, key: str) -> None:
        """Remove an object, and folders that become empty."""
        path = self._path(key)
        with self._locked():
            with suppress(FileNotFoundError):
                os.remove(path)
            folder = os.path.dirname(path)
            with suppress(OSError):  # not empty, or missing
                while len(folder) > len(self.root):
                    os.rmdir(folder)
                    folder = os.path.dirname(folder)
        with suppress(FileNotFoundError):
            self._files.sync_folder(folder)

    def remove_leftovers(self) -> int:
        """Remove unfinished files of killed processes. Runs before the first write."""
        with self._locked(), suppress(FileNotFoundError):
            names = os.listdir(f"{self.root}/{WRITING}")
            return sum(_removed_if_dead(f"{self.root}/{WRITING}/{name}") for name in names)
        return 0

    # -- both -----------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(f"{self.root}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _path(self, key: str) -> str:
        if not key or any(not part or part.startswith(".") for part in key.split("/")):
            raise StoreError(f"not a valid object key for a folder: {key!r}")
        return f"{self.root}/{key}"

    def described(self, error: OSError, key: str) -> StoreError:
        """Translate a file system error into a StoreError with advice."""
        if not os.path.isdir(self.root):
            return StoreUnavailableError(f"The folder {self.root} does not exist: is its disk mounted?")
        if isinstance(error, FileNotFoundError):
            return MissingObjectError(f"{key} is not in {self.root}.")
        if error.errno in _FULL:
            return StoreDeniedError(
                f"The disk of {self.root} is full: free some space, or use a larger disk."
            )
        if error.errno in _DENIED:
            return StoreDeniedError(
                f"{key} in {self.root}: {error.strerror}. Allow the broker's account to read and write there."
            )
        return StoreUnavailableError(f"{key} in {self.root}: {error.strerror}. Check the disk.")


def always(key: str, current: os.stat_result | None) -> None:
    return


def if_missing(key: str, current: os.stat_result | None) -> None:
    if current is not None:
        raise ObjectExistsError(f"{key} already exists.")


def if_version(version: str) -> Condition:
    return partial(_if_version, version)


def _if_version(version: str, key: str, current: os.stat_result | None) -> None:
    if current is None or _version(current) != version:
        raise StaleVersionError(f"{key} has been replaced or removed since it was read.")


def _stamp(file: Writing, replaced: os.stat_result | None) -> str:
    """Set the modification time and return the version, which is unique for this key."""
    mtime_ns = time.time_ns() if replaced is None else max(time.time_ns(), replaced.st_mtime_ns + 1)
    os.utime(file.fileno(), ns=(mtime_ns, mtime_ns))
    return _version(os.fstat(file.fileno()))


def _make_folder_of(path: str) -> list[str]:
    """Create missing folders; return the folders that get a new entry, for syncing."""
    changed = [os.path.dirname(path)]
    while not os.path.isdir(changed[-1]):
        changed.append(os.path.dirname(changed[-1]))
    for folder in reversed(changed[:-1]):
        os.mkdir(folder, FOLDER_MODE)
    return changed


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _version(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_ino:x}"


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, status.st_mtime_ns // 1_000_000)


def _removed_if_dead(path: str) -> bool:
    with open(path, "rb") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.remove(path)
    return True
