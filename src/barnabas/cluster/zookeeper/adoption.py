"""Import of metadata into an empty ZooKeeper: of a single node, or of a restored cluster."""

from __future__ import annotations

import msgspec

from barnabas.cluster.features import level_of
from barnabas.cluster.image import MetadataImage
from barnabas.cluster.snapshots import MetadataEntry, snapshot_of
from barnabas.cluster.zookeeper.layout import (
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
    encode_entry,
    write_chunks,
)
from barnabas.cluster.zookeeper.registration import ClusterIdentity, create_cluster_id
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import Create, NodeExistsError, SetData, ZooKeeperUnusableError


async def adopt_into(zk: ZooKeeper, image: MetadataImage) -> None:
    """Make this image the start of the log in an empty ZooKeeper, atomically.

    The next controller gets the next epoch, and brokers register again, with epochs assigned by ZooKeeper.
    """
    if await ClusterIdentity(zk).check() is not None:
        raise _not_empty(zk)
    for path in (LOG, PARTS, SNAPSHOTS, "/cluster"):
        await zk.ensure(path)
    text = encode_entry(
        MetadataEntry(image.offset, image.controller_epoch, list(snapshot_of(_without_epochs(image))))
    )
    # The incarnation is part of the name, as an interrupted import may have left chunks of another text.
    folder = f"{image.offset}-adopted-{image.incarnation}"
    count = await write_chunks(zk, f"{SNAPSHOTS}/{folder}", text)
    root = await zk.get(ROOT)
    try:
        await zk.multi(
            [
                SetData(ROOT, msgspec.json.encode(StoreFormat(level_of(image))), root.stat.version),
                Create(CONTROLLER_EPOCH, str(image.controller_epoch).encode(), public=True),
                Create(SNAPSHOT, msgspec.json.encode(Parts(folder, count, image.offset))),
                Create(HEAD, msgspec.json.encode(LogHead(image.offset, image.controller_epoch))),
                create_cluster_id(image.cluster_id),
            ]
        )
    except NodeExistsError:
        raise _not_empty(zk) from None


def _without_epochs(image: MetadataImage) -> MetadataImage:
    """Reset broker epochs: those of a single node are log offsets, and ZooKeeper's transactions must be greater."""
    brokers = {
        broker_id: msgspec.structs.replace(broker, epoch=0, fenced=True)
        for broker_id, broker in image.brokers.items()
    }
    return msgspec.structs.replace(image, brokers=brokers)


def _not_empty(zk: ZooKeeper) -> ZooKeeperUnusableError:
    return ZooKeeperUnusableError(
        f"ZooKeeper at {zk.settings} holds a cluster already. Use another path, such as "
        f"{zk.settings.hosts}/another"
    )
