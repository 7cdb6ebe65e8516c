"""Texts that are too long for one node of ZooKeeper (1 MB with everything around it): a folder of pieces."""

from __future__ import annotations

import asyncio
import contextlib

from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.types import Create, Delete, NodeExistsError, NoNodeError, Operation

CHUNK_BYTES = 512 << 10
DELETES_AT_ONCE = 100


async def write_chunks(zk: ZooKeeper, folder: str, text: bytes) -> int:
    """How many pieces it became. They are not read until a node points at the folder."""
    await zk.ensure(folder)
    pieces = range(0, len(text), CHUNK_BYTES)
    for index, start in enumerate(pieces):
        # An attempt that got no answer may have written it: what is there is what we would write.
        with contextlib.suppress(NodeExistsError):
            await zk.multi([Create(f"{folder}/{index}", text[start : start + CHUNK_BYTES])])
    return len(pieces)


async def read_chunks(zk: ZooKeeper, folder: str, count: int) -> bytes:
    nodes = await asyncio.gather(*(zk.get(f"{folder}/{index}") for index in range(count)))
    return b"".join(node.data for node in nodes)


async def delete_folder(zk: ZooKeeper, folder: str) -> None:
    with contextlib.suppress(NoNodeError):
        names = await zk.children(folder)
        await delete_all(zk, [f"{folder}/{name}" for name in names])
        await zk.delete(folder)


async def delete_all(zk: ZooKeeper, paths: list[str]) -> None:
    """Paths without children. One that is gone already takes its companions' turn: the next clean-up gets them."""
    for start in range(0, len(paths), DELETES_AT_ONCE):
        deletes: list[Operation] = [Delete(path) for path in paths[start : start + DELETES_AT_ONCE]]
        with contextlib.suppress(NoNodeError):
            await zk.multi(deletes)
