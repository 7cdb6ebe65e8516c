"""Nodes of the metadata log in ZooKeeper, and their encoding.

/barnabas                 the metadata level (features.py), which brokers that are too old refuse to read
/barnabas/head            the offset of the newest entry; brokers watch only this
/barnabas/log/N           entry N as JSON; a long one refers to /barnabas/parts
/barnabas/snapshot        refers to the newest complete image, in chunks below /barnabas/snapshots
/controller_epoch         epoch of the controller that may write
/cluster/id               as in Kafka
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from barnabas.cluster.snapshots import DamagedMetadataError, MetadataEntry
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import Create, DeleteNode, NodeExistsError, NoNodeError, Operation

# -- Texts above the size limit of a node (1 MB including overhead), stored as a folder of chunks ------

CHUNK_BYTES = 512 << 10
DELETES_AT_ONCE = 100


async def write_chunks(zk: ZooKeeper, folder: str, text: bytes) -> int:
    """Write the chunks and return their number. They are not read until a node refers to the folder."""
    await zk.ensure(folder)
    starts = range(0, len(text), CHUNK_BYTES)
    for index, start in enumerate(starts):
        # An earlier attempt without a response may have written the same chunk.
        with contextlib.suppress(NodeExistsError):
            await zk.multi([Create(f"{folder}/{index}", text[start : start + CHUNK_BYTES])])
    return len(starts)


async def read_chunks(zk: ZooKeeper, folder: str, count: int) -> bytes:
    nodes = await asyncio.gather(*(zk.get(f"{folder}/{index}") for index in range(count)))
    return b"".join(node.data for node in nodes)


async def delete_folder(zk: ZooKeeper, folder: str) -> None:
    with contextlib.suppress(NoNodeError):
        names = await zk.children(folder)
        await delete_all(zk, [f"{folder}/{name}" for name in names])
        await zk.delete(folder)


async def delete_all(zk: ZooKeeper, paths: list[str]) -> None:
    """Delete nodes without children. If one is missing, its whole batch is left for the next clean-up."""
    for start in range(0, len(paths), DELETES_AT_ONCE):
        deletes: list[Operation] = [DeleteNode(path) for path in paths[start : start + DELETES_AT_ONCE]]
        with contextlib.suppress(NoNodeError):
            await zk.multi(deletes)


ROOT = "/barnabas"
HEAD = f"{ROOT}/head"
LOG = f"{ROOT}/log"
PARTS = f"{ROOT}/parts"
SNAPSHOT = f"{ROOT}/snapshot"
SNAPSHOTS = f"{ROOT}/snapshots"
CONTROLLER_EPOCH = "/controller_epoch"


class LogHead(msgspec.Struct, frozen=True):
    offset: int
    controller_epoch: int


class Parts(msgspec.Struct, frozen=True):
    """Reference to a long text, stored in chunks."""

    folder: str
    count: int
    offset: int = 0


class StoreFormat(msgspec.Struct, frozen=True):
    format: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(MetadataEntry)


def encode_entry(entry: MetadataEntry) -> bytes:
    return _encoder.encode(entry)


def decode_entry(text: bytes, path: str) -> MetadataEntry:
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise DamagedMetadataError(
            f"{path} in ZooKeeper is not understood ({error}); was it written by a newer Barnabas?"
        ) from error


def log_path(offset: int) -> str:
    return f"{LOG}/{offset:010d}"


def offset_in(folder: str) -> int:
    return int(folder.partition("-")[0])
