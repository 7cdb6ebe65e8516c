"""Storage of the metadata log: one writer appends entries, and a starting broker loads the image.

`FileMetadataStore` is for a single node, `zookeeper/store.py` for clusters, `MemoryMetadataStore` for tests.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from barnabas.cluster.deltas import Delta, apply
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.cluster.snapshots import (
    DamagedMetadataError,
    MetadataEntry,
    decode_entries,
    encode_entry,
    has_entry_behind,
    image_from_snapshot,
    snapshot_of,
)
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import File, FileSystem
from barnabas.common.safe_logging import safe_logger

T = TypeVar("T")
OnEntry = Callable[[int, list[Delta]], None]
RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]

logger = safe_logger(__name__)

METADATA_FOLDER = "__barnabas_metadata"
"""Folder in the first log dir. Without `-<number>` at the end, its name is not that of a partition."""

LOG_FILE = "metadata.log"
SNAPSHOT_FILE = "metadata.snapshot"

# Reading a log of this size takes some tens of milliseconds at startup; writing a snapshot costs about as much.
SNAPSHOT_AT_BYTES = 4 << 20


class StaleControllerError(KafkaError):
    """Another controller has written to the log: this one must reload or resign."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, message)


class MetadataStoreError(KafkaError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class MetadataStore(Protocol):
    async def load(self) -> MetadataImage:
        """Return the image at the head of the log."""
        ...

    async def append(self, image_offset: int, controller_epoch: int, deltas: list[Delta]) -> int:
        """Write the entry after `image_offset` durably and return its offset.

        Raise StaleControllerError if the head has another offset, or a newer controller has written.
        """
        ...

    async def head(self) -> int:
        """Return the offset of the newest entry of any writer."""
        ...

    def follow(self, on_entry: OnEntry) -> None:
        """Call `on_entry` once for every entry after the loaded image, of any writer, in order."""
        ...

    @property
    def wants_snapshot(self) -> bool: ...

    async def save_snapshot(self, image: MetadataImage) -> None:
        """Store a complete image, which replaces the entries up to its offset."""
        ...

    async def close(self) -> None: ...


class _Head:
    """End of the log and epoch of its last writer; appends are checked against both."""

    def __init__(self) -> None:
        self.offset = 0
        self.controller_epoch = 0

    def check(self, image_offset: int, controller_epoch: int) -> None:
        if image_offset != self.offset:
            raise StaleControllerError(
                f"the metadata log is at offset {self.offset}, but this change is based on {image_offset}"
            )
        if controller_epoch < self.controller_epoch:
            raise StaleControllerError(
                f"controller epoch {controller_epoch} is stale: the current one is {self.controller_epoch}"
            )

    def move(self, offset: int, controller_epoch: int) -> None:
        self.offset = offset
        self.controller_epoch = controller_epoch


async def in_a_thread(work: Callable[[], None]) -> None:
    """Run blocking work, such as an fsync, in a thread."""
    await asyncio.to_thread(work)


class FileMetadataStore:
    """`metadata.log` has the entries after the last `metadata.snapshot`; both are framed (snapshots.py)."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        *,
        run_blocking: RunBlocking = in_a_thread,
        snapshot_at_bytes: int = SNAPSHOT_AT_BYTES,
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._log_path = f"{folder}/{LOG_FILE}"
        self._snapshot_path = f"{folder}/{SNAPSHOT_FILE}"
        self._run_blocking = run_blocking
        self._snapshot_at_bytes = snapshot_at_bytes
        self._head = _Head()
        self._file: File | None = None
        self._failure: str | None = None
        self._followers: list[OnEntry] = []

    async def load(self) -> MetadataImage:
        self._make_folder()
        image, controller_epoch = self._load_snapshot()
        self._file = self._open_log()
        for entry in self._load_log(self._file, image.offset):
            image = apply(image, entry.deltas)
            controller_epoch = entry.controller_epoch
        self._head.move(image.offset, controller_epoch)
        return image

    async def append(self, image_offset: int, controller_epoch: int, deltas: list[Delta]) -> int:
        self._fail_if_failed()
        self._head.check(image_offset, controller_epoch)
        entry = MetadataEntry(image_offset + 1, controller_epoch, deltas)
        frame = encode_entry(entry)
        await self._run_blocking(lambda: self._write(frame))
        self._head.move(entry.offset, controller_epoch)
        for on_entry in self._followers:
            on_entry(entry.offset, deltas)
        return entry.offset

    async def head(self) -> int:
        return self._head.offset

    def follow(self, on_entry: OnEntry) -> None:
        self._followers.append(on_entry)

    @property
    def wants_snapshot(self) -> bool:
        return self._file is not None and self._file.size > self._snapshot_at_bytes

    async def save_snapshot(self, image: MetadataImage) -> None:
        self._fail_if_failed()
        entry = MetadataEntry(image.offset, self._head.controller_epoch, list(snapshot_of(image)))
        frame = encode_entry(entry)
        await self._run_blocking(lambda: self._replace_log_by(frame))

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _make_folder(self) -> None:
        if not self._fs.exists(self._folder):
            self._fs.make_folders(self._folder)
            self._fs.sync_folder(os.path.dirname(self._folder))

    def _load_snapshot(self) -> tuple[MetadataImage, int]:
        if not self._fs.exists(self._snapshot_path):
            return EMPTY_IMAGE, 0
        data = self._fs.read_bytes(self._snapshot_path)
        entries, end = decode_entries(data)
        if len(entries) != 1 or end != len(data):
            raise DamagedMetadataError(
                f"{self._snapshot_path} is damaged. Restore the folder {self._folder} from a backup; "
                "the records of the topics are not affected."
            )
        snapshot = entries[0]
        return image_from_snapshot(snapshot.deltas, snapshot.offset), snapshot.controller_epoch

    def _open_log(self) -> File:
        is_new = not self._fs.exists(self._log_path)
        file = self._fs.open(self._log_path, create=True)
        if is_new:
            self._fs.sync_folder(self._folder)
        return file

    def _load_log(self, file: File, snapshot_offset: int) -> list[MetadataEntry]:
        data = file.read(file.size, 0)
        entries, end = decode_entries(data)
        if end < len(data):
            self._cut_torn_tail(file, data, end)
        # A crash between writing a snapshot and truncating the log leaves entries that are in both.
        following = [entry for entry in entries if entry.offset > snapshot_offset]
        for expected, entry in enumerate(following, snapshot_offset + 1):
            if entry.offset != expected:
                raise DamagedMetadataError(
                    f"{self._log_path} lacks entry {expected}: the next one is {entry.offset}. "
                    f"Restore the folder {self._folder} from a backup."
                )
        return following

    def _cut_torn_tail(self, file: File, data: bytes, end: int) -> None:
        if has_entry_behind(data, end):
            raise DamagedMetadataError(
                f"{self._log_path} is damaged at byte {end}, with valid entries after it. "
                f"Nothing was changed; restore the folder {self._folder} from a backup."
            )
        logger.warning("%s: truncated %d bytes of an incomplete entry", self._log_path, len(data) - end)
        file.truncate(end)
        file.sync()

    def _write(self, frame: bytes) -> None:
        file = self._open_file()
        try:
            file.append(frame)
        except OSError as error:
            raise MetadataStoreError(f"{self._log_path} cannot be written: {error}") from error
        self._sync(file)

    def _replace_log_by(self, snapshot: bytes) -> None:
        file = self._open_file()
        try:
            self._fs.write_atomic(self._snapshot_path, snapshot)
        except OSError as error:
            # The log is complete without it. A retry after every entry would add load to a failing disk.
            logger.warning("%s cannot be written: %s", self._snapshot_path, error)
            self._snapshot_at_bytes = 2 * file.size
            return
        file.truncate(0)
        self._sync(file)

    def _sync(self, file: File) -> None:
        try:
            file.sync()
        except OSError as error:
            # After a failed fsync the state of the disk is unknown, and a second fsync may falsely succeed.
            self._failure = f"{self._log_path} could not be synced ({error}); restart after checking the disk"
            raise MetadataStoreError(self._failure) from error

    def _open_file(self) -> File:
        if self._file is None:
            raise MetadataStoreError(f"{self._log_path} is closed")
        return self._file

    def _fail_if_failed(self) -> None:
        if self._failure is not None:
            raise MetadataStoreError(self._failure)


class MemoryMetadataStore:
    """In-memory store for tests. `fail_next` makes one append fail; two controllers can share one to compete."""

    def __init__(self) -> None:
        self.entries: list[MetadataEntry] = []
        self.fail_next: KafkaError | None = None
        self.snapshots: list[MetadataImage] = []
        self._head = _Head()
        self._followers: list[OnEntry] = []

    async def load(self) -> MetadataImage:
        image = EMPTY_IMAGE
        for entry in self.entries:
            image = apply(image, entry.deltas)
        return image

    async def append(self, image_offset: int, controller_epoch: int, deltas: list[Delta]) -> int:
        self._head.check(image_offset, controller_epoch)
        await asyncio.sleep(0)  # yields, like a real store
        self._head.check(image_offset, controller_epoch)
        failure, self.fail_next = self.fail_next, None
        if failure is not None:
            raise failure
        self.entries.append(MetadataEntry(image_offset + 1, controller_epoch, list(deltas)))
        self._head.move(image_offset + 1, controller_epoch)
        for on_entry in self._followers:
            on_entry(image_offset + 1, deltas)
        return image_offset + 1

    async def head(self) -> int:
        return self._head.offset

    def follow(self, on_entry: OnEntry) -> None:
        self._followers.append(on_entry)

    @property
    def wants_snapshot(self) -> bool:
        return False

    async def save_snapshot(self, image: MetadataImage) -> None:
        self.snapshots.append(image)

    async def close(self) -> None:
        pass


class SerialExecutor:
    """Runs steps one by one, in the order of the calls.

    A step that was started runs to its end even if its caller is cancelled, as after a disconnect: an entry in the
    log must also be applied to the image.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def run(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = asyncio.ensure_future(self._run_alone(step))
        task.add_done_callback(_mark_retrieved)
        return await asyncio.shield(task)

    async def _run_alone(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._lock:
            return await step()


def _mark_retrieved(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception, so that asyncio does not log it if the caller was cancelled."""
    if not task.cancelled():
        task.exception()
