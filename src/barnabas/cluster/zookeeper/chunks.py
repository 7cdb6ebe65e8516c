"""Texts that exceed the limit of a ZooKeeper node (1 MB including overhead), stored as a folder of chunks."""

from __future__ import annotations

import asyncio
import contextlib

from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import Create, DeleteNode, NodeExistsError, NoNodeError, Operation

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
