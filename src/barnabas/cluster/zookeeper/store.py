"""The metadata log in ZooKeeper; layout.py lists its nodes.

An entry is committed by `multi(check controller epoch, create log/N+1, set head at its version)`: atomically, and
only by the newest controller, after the newest entry.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import NamedTuple

import msgspec

from barnabas.cluster.deltas import ClusterCreated, Delta, apply
from barnabas.cluster.difference import difference
from barnabas.cluster.features import FIRST_LEVEL, NEWEST_LEVEL, raised_level
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.cluster.snapshots import DamagedMetadataError, MetadataEntry, image_from_snapshot, snapshot_of
from barnabas.cluster.store import OnEntry, StaleControllerError
from barnabas.cluster.zookeeper.layout import (
    CHUNK_BYTES,
    CONTROLLER_EPOCH,
    HEAD,
    LOG,
    PARTS,
    ROOT,
    SNAPSHOT,
    SNAPSHOTS,
    LogHead,
    Parts,
    StoreFormat,
    decode_entry,
    delete_all,
    delete_folder,
    encode_entry,
    log_path,
    offset_in,
    read_chunks,
    write_chunks,
)
from barnabas.cluster.zookeeper.polling import Poller
from barnabas.cluster.zookeeper.registration import ClusterIdentity, create_cluster_id
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import (
    ANY_VERSION,
    BadVersionError,
    CheckVersion,
    Create,
    NodeExistsError,
    NoNodeError,
    Operation,
    OutcomeUnknownError,
    SessionState,
    SetData,
    Wake,
    ZooKeeperError,
    ZooKeeperUnusableError,
)
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import new_uuid, uuid_to_text

logger = safe_logger(__name__)

# A start reads this many nodes, READS_AT_ONCE at a time, in a second or less.
SNAPSHOT_AT_ENTRIES = 2000
SNAPSHOT_AT_BYTES = 4 << 20
# For brokers that are a little behind when a snapshot is written; others read the snapshot.
ENTRIES_KEPT = 1000
READS_AT_ONCE = 100
LOAD_ATTEMPTS = 10


class _Guard(NamedTuple):
    """Conditions of a commit: epoch of the newest controller, and head of the log."""

    epoch: int
    epoch_version: int
    offset: int
    head_version: int
    """-1 for an empty log, which has no head."""


class ZooKeeperMetadataStore:
    def __init__(self, zk: ZooKeeper, identity: ClusterIdentity, newest_level: int = NEWEST_LEVEL) -> None:
        self._zk = zk
        self._newest_level = newest_level
        self._identity = identity
        self._guard: _Guard | None = None
        self._delivered = 0
        self._image = EMPTY_IMAGE
        self._since_image: list[list[Delta]] = []
        self._followers: list[OnEntry] = []
        self._following: Poller | None = None
        self._snapshot_offset = 0
        self._bytes_since_snapshot = 0
        zk.on_link.append(self._link_changed)

    # -- reading ------------------------------------------------------------------------------------

    async def load(self) -> MetadataImage:
        """Return the newest image. A connection or session that is lost meanwhile is replaced."""
        return await self._zk.repeat(self._load_newest)

    async def _load_newest(self) -> MetadataImage:
        """Load after a `sync`: a server of the ensemble may lag behind the writes of a former controller."""
        await self._zk.sync()
        await self._check_format()
        await self._identity.check()
        for _ in range(LOAD_ATTEMPTS):
            with contextlib.suppress(NoNodeError):  # the snapshot was replaced by a newer one meanwhile
                image = await self._load()
                self._delivered = image.offset
                self._image, self._since_image = image, []
                return image
        raise DamagedMetadataError(
            f"the metadata in ZooKeeper at {self._zk.settings} lack an entry or a chunk of the snapshot. Restore "
            "ZooKeeper's data from a backup; the records of the topics are not affected."
        )

    async def head(self) -> int:
        await self._zk.sync()
        return (await self._read_head()).offset

    async def _load(self) -> MetadataImage:
        image = await self._load_snapshot()
        head = await self._read_head()
        for entry in await self._read_entries(image.offset + 1, head.offset):
            image = apply(image, entry.deltas)
        return image

    async def _load_snapshot(self) -> MetadataImage:
        try:
            node = await self._zk.get(SNAPSHOT)
        except NoNodeError:
            return EMPTY_IMAGE
        parts = msgspec.json.decode(node.data, type=Parts)
        entry = decode_entry(
            await read_chunks(self._zk, f"{SNAPSHOTS}/{parts.folder}", parts.count), parts.folder
        )
        self._snapshot_offset = entry.offset
        return image_from_snapshot(entry.deltas, entry.offset)

    async def _read_head(self) -> LogHead:
        try:
            return msgspec.json.decode((await self._zk.get(HEAD)).data, type=LogHead)
        except NoNodeError:
            return LogHead(0, 0)

    async def _read_entries(self, first: int, last: int) -> list[MetadataEntry]:
        entries: list[MetadataEntry] = []
        for start in range(first, last + 1, READS_AT_ONCE):
            offsets = range(start, min(start + READS_AT_ONCE, last + 1))
            entries += await asyncio.gather(*(self._read_entry(offset) for offset in offsets))
        return entries

    async def _read_entry(self, offset: int) -> MetadataEntry:
        text = (await self._zk.get(log_path(offset))).data
        if text.startswith(b'{"folder"'):
            parts = msgspec.json.decode(text, type=Parts)
            text = await read_chunks(self._zk, f"{PARTS}/{parts.folder}", parts.count)
        self._bytes_since_snapshot += len(text)
        return decode_entry(text, log_path(offset))

    async def _check_format(self) -> None:
        for path in (LOG, PARTS, SNAPSHOTS, "/cluster"):
            await self._zk.ensure(path)
        node = await self._zk.get(ROOT)
        if not node.data:
            with contextlib.suppress(BadVersionError):
                await self._zk.set(ROOT, msgspec.json.encode(StoreFormat(FIRST_LEVEL)), node.stat.version)
        elif (level := msgspec.json.decode(node.data, type=StoreFormat).format) > self._newest_level:
            raise ZooKeeperUnusableError(
                f"the metadata in ZooKeeper have format level {level}, but this broker supports {self._newest_level}: "
                "upgrade this broker"
            )

    # -- following ----------------------------------------------------------------------------------

    def follow(self, on_entry: OnEntry) -> None:
        self._followers.append(on_entry)
        if self._following is None:
            self._following = Poller(self._follow, self._zk)

    def _link_changed(self, link: SessionState) -> None:
        if link is SessionState.CONNECTED:
            self._guard = None  # another controller may have written meanwhile
            if self._following is not None:
                self._following.wake()

    async def _follow(self, wake: Wake) -> None:
        try:
            await self._catch_up(wake)
        except DamagedMetadataError as error:
            logger.critical("cannot follow the metadata log: %s", error)

    async def _catch_up(self, wake: Wake) -> None:
        if await self._zk.exists(HEAD, wake) is None:
            if self._delivered:
                await self._identity.check()
            return
        delivered = self._delivered  # before the read, during which our own entries may be delivered
        head = await self._read_head()
        if head.offset < delivered:
            raise ZooKeeperUnusableError(
                f"the head of the metadata log went back from {delivered} to {head.offset}; was an older copy of "
                "ZooKeeper's data restored? If that was intended, restart this broker."
            )
        while self._delivered < head.offset:
            last = min(head.offset, self._delivered + READS_AT_ONCE)
            try:
                entries = await self._read_entries(self._delivered + 1, last)
            except NoNodeError:
                entries = await self._entries_from_snapshot()
            for entry in entries:
                self._deliver(entry)

    async def _entries_from_snapshot(self) -> list[MetadataEntry]:
        """Replace entries that are already deleted, for a broker that is far behind.

        The first entry has the difference to the snapshot's image; the others, up to its offset, are empty.
        """
        before = self._own_image()
        after = await self._load_snapshot()
        offsets = range(before.offset + 1, after.offset + 1)
        entries = [MetadataEntry(offset, after.controller_epoch, []) for offset in offsets]
        if not entries:
            raise DamagedMetadataError(f"entry {before.offset + 1} is missing, and no snapshot replaces it")
        logger.warning(
            "entries %d to %d of the metadata log are replaced by a snapshot", before.offset + 1, after.offset
        )
        entries[0] = MetadataEntry(before.offset + 1, after.controller_epoch, difference(before, after))
        return entries

    def _own_image(self) -> MetadataImage:
        for deltas in self._since_image:
            self._image = apply(self._image, deltas)
        self._since_image.clear()
        return self._image

    def _deliver(self, entry: MetadataEntry) -> None:
        """Deliver an entry once: our own entries arrive both from `append` and from the poller."""
        if entry.offset != self._delivered + 1:
            return
        self._delivered = entry.offset
        self._since_image.append(entry.deltas)
        if len(self._since_image) > ENTRIES_KEPT:
            self._own_image()
        for on_entry in self._followers:
            on_entry(entry.offset, entry.deltas)

    # -- writing ------------------------------------------------------------------------------------

    async def append(self, image_offset: int, controller_epoch: int, deltas: list[Delta]) -> int:
        entry = MetadataEntry(image_offset + 1, controller_epoch, deltas)
        text = encode_entry(entry)
        body = await self._body(entry.offset, text)
        while True:
            try:
                guard = await self._guard_of(image_offset, controller_epoch)
                await self._zk.multi(self._commit(guard, entry, body))
            except (OutcomeUnknownError, BadVersionError, NodeExistsError) as error:
                if await self._is_committed(entry.offset, body, error):
                    break
            else:
                self._guard = guard._replace(offset=entry.offset, head_version=guard.head_version + 1)
                break
        self._bytes_since_snapshot += len(text)
        self._deliver(entry)
        return entry.offset

    async def _body(self, offset: int, text: bytes) -> bytes:
        """Return the text itself, or a reference to its chunks if it is long."""
        if len(text) < CHUNK_BYTES:
            return text
        folder = f"{offset}-{uuid_to_text(new_uuid())}"
        count = await write_chunks(self._zk, f"{PARTS}/{folder}", text)
        return msgspec.json.encode(Parts(folder, count))

    def _commit(self, guard: _Guard, entry: MetadataEntry, body: bytes) -> list[Operation]:
        head = msgspec.json.encode(LogHead(entry.offset, entry.controller_epoch))
        operations: list[Operation] = [CheckVersion(CONTROLLER_EPOCH, guard.epoch_version)]
        operations.append(Create(log_path(entry.offset), body))
        if guard.head_version < 0:
            operations.append(Create(HEAD, head))
        else:
            operations.append(SetData(HEAD, head, guard.head_version))
        level = raised_level(entry.deltas)
        if level is not None:
            operations.append(SetData(ROOT, msgspec.json.encode(StoreFormat(level)), ANY_VERSION))
        created = [delta for delta in entry.deltas if isinstance(delta, ClusterCreated)]
        return operations + [create_cluster_id(delta.cluster_id) for delta in created]

    async def _is_committed(self, offset: int, body: bytes, error: ZooKeeperError) -> bool:
        """Read back an entry after a timeout or a conflict. If False, the caller tries again; after a write of another
        controller, that attempt fails as stale."""
        self._guard = None
        while True:
            if self._zk.is_cut_off:
                raise StaleControllerError(f"cut off from ZooKeeper while writing entry {offset}: {error}")
            with contextlib.suppress(OutcomeUnknownError):
                await self._zk.sync()
                try:
                    return (await self._zk.get(log_path(offset))).data == body
                except NoNodeError:
                    return False

    async def _guard_of(self, image_offset: int, controller_epoch: int) -> _Guard:
        """Return the cached guard if it has this offset and epoch; otherwise read it from ZooKeeper and check it."""
        guard = self._guard
        if guard is None or (guard.offset, guard.epoch) != (image_offset, controller_epoch):
            guard = await self._read_guard()
            self._check(guard, image_offset, controller_epoch)
        return guard

    async def _read_guard(self) -> _Guard:
        try:
            epoch = await self._zk.get(CONTROLLER_EPOCH)
        except NoNodeError:
            raise StaleControllerError(
                "no controller was ever elected: /controller_epoch is missing"
            ) from None
        try:
            node = await self._zk.get(HEAD)
        except NoNodeError:
            await self._identity.check()
            return _Guard(int(epoch.data), epoch.stat.version, 0, -1)
        head = msgspec.json.decode(node.data, type=LogHead)
        return _Guard(int(epoch.data), epoch.stat.version, head.offset, node.stat.version)

    def _check(self, guard: _Guard, image_offset: int, controller_epoch: int) -> None:
        if controller_epoch != guard.epoch:
            raise StaleControllerError(
                f"controller epoch {controller_epoch} is stale: the current one is {guard.epoch}"
            )
        if image_offset != guard.offset:
            raise StaleControllerError(
                f"the metadata log is at offset {guard.offset}, but this change is based on {image_offset}"
            )

    # -- snapshots ----------------------------------------------------------------------------------

    @property
    def wants_snapshot(self) -> bool:
        entries = self._delivered - self._snapshot_offset
        return entries > SNAPSHOT_AT_ENTRIES or self._bytes_since_snapshot > SNAPSHOT_AT_BYTES

    async def save_snapshot(self, image: MetadataImage) -> None:
        """Write a snapshot. Errors are only logged: the log is complete without it, and the next entry retries."""
        try:
            await self._save_snapshot(image)
            await self._clean_up(image.offset)
        except ZooKeeperError as error:
            logger.warning("cannot write a metadata snapshot to ZooKeeper: %s", error)

    async def _save_snapshot(self, image: MetadataImage) -> None:
        guard = self._guard or await self._read_guard()
        text = encode_entry(MetadataEntry(image.offset, image.controller_epoch, list(snapshot_of(image))))
        folder = f"{image.offset}-{uuid_to_text(new_uuid())}"
        count = await write_chunks(self._zk, f"{SNAPSHOTS}/{folder}", text)
        pointer = msgspec.json.encode(Parts(folder, count, image.offset))
        current = await self._zk.exists(SNAPSHOT)
        write: Operation = (
            SetData(SNAPSHOT, pointer, current.version) if current else Create(SNAPSHOT, pointer)
        )
        await self._zk.multi([CheckVersion(CONTROLLER_EPOCH, guard.epoch_version), write])
        self._snapshot_offset = image.offset
        self._bytes_since_snapshot = 0

    async def _clean_up(self, snapshot_offset: int) -> None:
        """Delete old entries, their chunks, and older snapshots. The last but one is kept for current readers."""
        oldest = snapshot_offset - ENTRIES_KEPT
        entries = [name for name in await self._zk.children(LOG) if int(name) <= oldest]
        await delete_all(self._zk, [f"{LOG}/{name}" for name in entries])
        for folder in await self._zk.children(PARTS):
            if offset_in(folder) <= oldest:
                await delete_folder(self._zk, f"{PARTS}/{folder}")
        for folder in sorted(await self._zk.children(SNAPSHOTS), key=offset_in)[:-2]:
            await delete_folder(self._zk, f"{SNAPSHOTS}/{folder}")

    async def close(self) -> None:
        if self._following is not None:
            self._following.stop()
