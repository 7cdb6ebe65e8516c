"""Destinations of the metadata of a restored cluster. Each is written atomically."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from barnabas.broker.restore.plan import RestoreRefusedError
from barnabas.cluster import METADATA_FOLDER, FileMetadataStore
from barnabas.cluster.image import MetadataImage
from barnabas.common.files import LocalFileSystem
from barnabas.config.broker import BrokerConfig
from barnabas.log.dirs import claim, write_clean_shutdown

UNFINISHED = ".restoring"
NO_EPOCH = -1


class RestoreTarget(Protocol):
    @property
    def brokers(self) -> Sequence[int] | None:
        """Ids of the brokers of the new cluster; None to keep those of the old one."""
        ...

    async def check(self) -> None:
        """Raise RestoreRefusedError if the target is not empty."""
        ...

    async def write(self, image: MetadataImage) -> None: ...


class FolderTarget:
    """A standalone node. The folder is built under a temporary name and renamed when it is complete."""

    def __init__(self, folder: Path, node_id: int) -> None:
        self._folder = folder.absolute()
        self._node_id = node_id

    @property
    def brokers(self) -> tuple[int, ...]:
        return (self._node_id,)

    async def check(self) -> None:
        folder = self._folder
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RestoreRefusedError(f"{folder} is not empty and was not changed: choose a new folder.")
        if not os.access(next(each for each in folder.parents if each.exists()), os.W_OK):
            raise RestoreRefusedError(f"cannot create {folder}: its parent folder is not writable.")

    async def write(self, image: MetadataImage) -> None:
        await self.check()
        fs, making = LocalFileSystem(), self._folder.with_name(self._folder.name + UNFINISHED)
        if making.exists():  # left by an interrupted restore
            shutil.rmtree(making)
        fs.make_folders(str(making))
        store = FileMetadataStore(fs, str(making / METADATA_FOLDER))
        await store.load()
        try:
            await store.save_snapshot(image)
        finally:
            await store.close()
        claim(fs, str(making), image.cluster_id, self._node_id)
        # The folder has no logs, so there is nothing to recover.
        write_clean_shutdown(fs, str(making), NO_EPOCH)
        fs.sync_folder(str(making))
        os.rename(making, self._folder)
        fs.sync_folder(str(self._folder.parent))


class ZooKeeperTarget:
    """A cluster in ZooKeeper. Its brokers start with empty log dirs."""

    def __init__(self, config: BrokerConfig, brokers: Sequence[int] | None) -> None:
        self._config = config
        self.brokers = brokers

    async def check(self) -> None:
        from barnabas.cluster.zookeeper import ClusterIdentity, ZooKeeper, zookeeper_settings

        zk = ZooKeeper(zookeeper_settings(self._config))
        await zk.start()
        try:
            found = await ClusterIdentity(zk).check()
        finally:
            await zk.close()
        if found is not None:
            raise RestoreRefusedError(
                f"ZooKeeper at {self._config['zookeeper.connect']} already holds cluster {found}, which was not "
                "changed: choose another path, such as HOST:PORT/restored."
            )

    async def write(self, image: MetadataImage) -> None:
        from barnabas.cluster.zookeeper import ZooKeeper, adopt_into, zookeeper_settings

        zk = ZooKeeper(zookeeper_settings(self._config))
        await zk.start()
        try:
            await adopt_into(zk, image)
        finally:
            await zk.close()
