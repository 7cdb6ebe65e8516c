"""`barnabas cluster adopt`: turn a single node into the first broker of a cluster."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.cluster.image import MetadataImage
    from barnabas.config.broker import BrokerConfig

ADOPTED = ".adopted"
"""Suffix of the folder with the former metadata."""


class NothingToAdoptError(RuntimeError):
    """The folder does not belong to a single node."""


def adopt(config: BrokerConfig) -> dict[str, Any]:
    """Move the metadata of this node into its ZooKeeper. Returns a summary."""
    return asyncio.run(_adopt(config))


async def _adopt(config: BrokerConfig) -> dict[str, Any]:
    from barnabas.cluster import METADATA_FOLDER
    from barnabas.common.clock import SystemClock
    from barnabas.common.files import LocalFileSystem
    from barnabas.log.dirs import LogManager

    files = LocalFileSystem()
    folder = os.path.join(config.log_dirs[0], METADATA_FOLDER)
    if not files.exists(folder):
        raise NothingToAdoptError(
            f"{config.log_dirs[0]} holds no metadata of a broker that ran alone: there is nothing to adopt. "
            "A new broker joins a cluster with `barnabas serve --zookeeper` right away.",
        )
    logs = LogManager(files, config.log_dirs, SystemClock(), config)
    logs.lock()  # the broker must not be running
    try:
        image = await _move(config, folder)
    finally:
        logs.close(clean=False)
    return {
        "cluster_id": image.cluster_id,
        "topics": len(image.topics),
        "partitions": sum(1 for _ in image.partitions()),
        "metadata_offset": image.offset,
    }


async def _move(config: BrokerConfig, folder: str) -> MetadataImage:
    from barnabas.cluster import FileMetadataStore
    from barnabas.cluster.zookeeper import ZooKeeper, adopt_into, zookeeper_settings
    from barnabas.common.files import LocalFileSystem

    store = FileMetadataStore(LocalFileSystem(), folder)
    image = await store.load()
    await store.close()
    zk = ZooKeeper(zookeeper_settings(config))
    await zk.start()
    try:
        await adopt_into(zk, image)
    finally:
        await zk.close()
    os.rename(folder, folder + ADOPTED)
    return image
