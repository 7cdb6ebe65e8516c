"""The files of a folder that is an object store. All of it blocks: `folder_store` calls it from threads.

<root>/<key>          an object: its bytes, and nothing else
<root>/.writing/<n>   an object that is being written; it moves to its key when it is whole and on the disk
<root>/.lock          held (flock) while names change, so that several processes of one machine may share the folder

An object is never changed in place. Its version is its file's modification time, which every write sets above that of
the object it replaces, and its inode. Between machines neither locks nor times are dependable.
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
"""Raises if an object, or that there is none, is not what the caller expects."""


class Writing(LocalFile):
    """An object that has no key yet. If it is never finished, its file is removed with it."""

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
            raise StoreError(f"{key} ends at {start + len(data)}, before {end}: it has been cut short.")
        return data

    def entries(self, folder: str, after: str) -> list[ObjectInfo | str]:
        """The objects in a folder, and the folders in it (their names end with `/`), by key."""
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
                    with suppress(FileNotFoundError):  # removed meanwhile
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
        """Its lock says that its process lives: what a killed one has left is not locked."""
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
        """Under its key, if the condition holds. Its bytes reach the disk before its name does."""
        path = self._path(key)
        file.sync()
        with self._locked():
            current = _status(path)
            condition(key, current)
            changed = _make_folder_of(path)
            version = _stamp(file, current)
            os.replace(file.path, path)
        for folder in changed:
            with suppress(FileNotFoundError):  # the object has been removed, and its folder with it
                self._files.sync_folder(folder)
        return version

    def remove(self, key: str) -> None:
        """And the folders that are empty without it."""
        path = self._path(key)
        with self._locked():
            with suppress(FileNotFoundError):
                os.remove(path)
            folder = os.path.dirname(path)
            with suppress(OSError):  # not empty, or not there
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
            raise StoreError(f"{key!r} cannot be the key of an object in a folder.")
        return f"{self.root}/{key}"

    def described(self, error: OSError, key: str) -> StoreError:
        """Translate a file system error into a StoreError with advice."""
        if not os.path.isdir(self.root):
            return StoreUnavailableError(f"The folder {self.root} is not there: is its disk mounted?")
        if isinstance(error, FileNotFoundError):
            return MissingObjectError(f"{key} is not in {self.root}.")
        if error.errno in _FULL:
            return StoreDeniedError(f"The disk of {self.root} is full: make room, or give it a larger one.")
        if error.errno in _DENIED:
            return StoreDeniedError(
                f"{key} in {self.root}: {error.strerror}. Give the broker's account the right to read and write there."
            )
        return StoreUnavailableError(f"{key} in {self.root}: {error.strerror}. Look at the disk.")


def always(key: str, current: os.stat_result | None) -> None:
    return


def if_missing(key: str, current: os.stat_result | None) -> None:
    if current is not None:
        raise ObjectExistsError(f"{key} is there already.")


def if_version(version: str) -> Condition:
    return partial(_if_version, version)


def _if_version(version: str, key: str, current: os.stat_result | None) -> None:
    if current is None or _version(current) != version:
        raise StaleVersionError(f"{key} has been replaced or removed since it was read.")


def _stamp(file: Writing, replaced: os.stat_result | None) -> str:
    """A version that no object of this key has had."""
    moment = time.time_ns() if replaced is None else max(time.time_ns(), replaced.st_mtime_ns + 1)
    os.utime(file.fileno(), ns=(moment, moment))
    return _version(os.fstat(file.fileno()))


def _make_folder_of(path: str) -> list[str]:
    """The folders in which there is a new name then."""
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
