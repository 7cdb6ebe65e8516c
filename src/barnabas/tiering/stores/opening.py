"""Open an object store from `barnabas.remote.storage.url` and `rsm.config.*`."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from barnabas.common.installation import extra_command
from barnabas.common.threads import ThreadBackground
from barnabas.config.setting import ConfigError
from barnabas.tiering.stores.folder_files import (
    Condition,
    FolderFiles,
    Writing,
    always,
    if_missing,
    if_version,
)
from barnabas.tiering.stores.store import BrowsableStore, ObjectInfo, Versioned

# -- Object store in a folder: for single machines, tests and trying out tiering without a bucket ------

T = TypeVar("T")
THREADS = 4  # more threads do not make a disk faster


class FolderStore:
    """Runs all operations in threads. Bound to one event loop."""

    def __init__(self, root: str) -> None:
        self._files = FolderFiles(root.rstrip("/"))
        self._threads: ThreadBackground | None = None

    def __repr__(self) -> str:
        return f"FolderStore({self._files.root})"

    async def get(self, key: str) -> Versioned:
        return await self._do(key, partial(self._files.read, key))

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        return await self._do(key, partial(self._files.read_range, key, start, end))

    async def create(self, key: str, data: bytes) -> str:
        return await self._write(key, data, if_missing)

    async def replace(self, key: str, data: bytes, version: str) -> str:
        return await self._write(key, data, if_version(version))

    async def put(self, key: str, data: bytes) -> None:
        await self._write(key, data, always)

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        file = await self._do(key, partial(self._files.begin, key))
        try:
            async for piece in pieces:
                await self._do(key, partial(file.append, piece))
            await self._do(key, partial(self._files.finish, file, key, always))
        except BaseException:
            self._discard(file)
            raise

    async def delete(self, key: str) -> None:
        await self._do(key, partial(self._files.remove, key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        """List objects, reading one folder at a time."""
        waiting: list[ObjectInfo | str] = [prefix]
        while waiting:
            entry = waiting.pop()
            if isinstance(entry, str):
                entries = await self._do(entry, partial(self._files.entries, entry, after))
                waiting += reversed(entries)
            else:
                yield entry

    async def folders(self, prefix: str) -> Sequence[str]:
        entries = await self._do(prefix, partial(self._files.entries, prefix, ""))
        below = [entry for entry in entries if isinstance(entry, str)]
        return sorted(entry.rstrip("/").rpartition("/")[2] for entry in below)

    async def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.close)

    async def _write(self, key: str, data: bytes, condition: Condition) -> str:
        return await self._do(key, partial(self._files.write, key, data, condition))

    def _discard(self, file: Writing) -> None:
        """Discard without waiting: the caller may have been cancelled. A thread that still writes has the file open."""
        self._background().run(file.discard, lambda _: None)

    async def _do(self, key: str, work: Callable[[], T]) -> T:
        return await self._background().call(partial(self._in_a_thread, key, work))

    def _in_a_thread(self, key: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            raise self._files.described(error, key) from error

    def _background(self) -> ThreadBackground:
        if self._threads is None:
            self._threads = ThreadBackground(asyncio.get_running_loop(), THREADS, "folder-store")
        return self._threads


URL = "barnabas.remote.storage.url"
FORMS = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER"
MISSING = "{url}={scheme}://... needs the package obstore: {command}"
BUCKETS = ("s3", "gs", "az")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_PREFIX = re.compile(r"[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*")


def open_store(url: str, options: Mapping[str, str]) -> BrowsableStore:
    """Open a store without contacting it. `options`: the settings `rsm.config.*` without this prefix."""
    parts = _split(url)
    if parts.scheme == "file":
        return _folder(parts)
    if parts.scheme in BUCKETS:
        return _bucket(parts, options)
    raise ConfigError(f"{URL} has an unknown scheme; use {FORMS}.")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_credentials = "@" in parts.netloc
    except ValueError:
        raise ConfigError(f"{URL} is not a valid URL; use {FORMS}.") from None
    if has_credentials:
        raise ConfigError(f"{URL} must not contain credentials: set rsm.config.* or the environment instead.")
    if parts.query or parts.fragment:
        raise ConfigError(f"{URL} must not contain ? or #: set options as rsm.config.* .")
    return parts


def _folder(parts: SplitResult) -> BrowsableStore:
    folder = os.path.normpath(unquote(parts.path)) if parts.path else ""
    if parts.netloc not in ("", "localhost") or not folder.startswith("/") or folder.strip("/") == "":
        raise ConfigError(f"{URL}={parts.geturl()} has no folder: use file:///FOLDER, with three slashes.")
    if not os.path.isdir(folder):
        raise ConfigError(f"{URL}: the folder {folder} does not exist. Create it, or mount its disk.")
    return FolderStore(folder)


def _bucket(parts: SplitResult, options: Mapping[str, str]) -> BrowsableStore:
    prefix = parts.path.strip("/")
    if not _NAME.fullmatch(parts.netloc):
        raise ConfigError(f"{URL}={parts.geturl()} has no bucket: use {FORMS}.")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            f"{URL}={parts.geturl()}: the prefix may contain letters, digits, / and . _ = - only."
        )
    try:
        from barnabas.tiering.stores.obstore_store import BucketUrl, ObstoreStore, UnknownOptionError
    except ImportError as error:
        raise ConfigError(
            MISSING.format(url=URL, scheme=parts.scheme, command=extra_command("tiering"))
        ) from error
    try:
        return ObstoreStore(BucketUrl(parts.scheme, parts.netloc, prefix), options)
    except UnknownOptionError as error:
        raise ConfigError(
            f"invalid rsm.config.* for {parts.scheme}: {error} See docs/tiering.md for the options."
        ) from None
