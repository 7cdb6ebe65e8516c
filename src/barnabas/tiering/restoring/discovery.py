"""Which clusters a bucket holds, and which partitions a cluster has there.

A list can begin behind any key, so what is known is jumped over: there is one request for each cluster or topic, not
one for each thousand objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from barnabas.tiering.objects.layout import (
    PartitionFolder,
    behind,
    parse_partition_prefix,
    topic_prefix,
    topics_prefix,
)
from barnabas.tiering.stores.store import ObjectStore
from barnabas.common.types import Uuid

OF_A_CLUSTER = frozenset(("topics", "cluster", "groups", "snapshots", "incarnation"))


async def find_clusters(store: ObjectStore) -> list[str]:
    """The ids of the clusters that have written here."""
    found: list[str] = []
    after = ""
    while (key := await _first(store, "", after)) is not None:
        cluster_id, _, rest = key.partition("/")
        if rest.partition("/")[0] in OF_A_CLUSTER:
            found.append(cluster_id)
        after = behind(f"{cluster_id}/") if rest else key
    return found


async def find_partitions(
    store: ObjectStore, cluster_id: str, known: Iterable[tuple[str, Uuid]]
) -> AsyncIterator[PartitionFolder]:
    """The folders of partitions whose topics are not among the known ones (name and id)."""
    jumped = {topic_prefix(cluster_id, name, topic_id) for name, topic_id in known}
    prefix, after = topics_prefix(cluster_id), ""
    while (key := await _first(store, prefix, after)) is not None:
        topic, _, rest = key.removeprefix(prefix).partition("/")
        partition = rest.partition("/")[0]
        after = behind(f"{prefix}{topic}/")
        if f"{prefix}{topic}/" not in jumped:
            after = behind(f"{prefix}{topic}/{partition}/")
            folder = parse_partition_prefix(f"{prefix}{topic}/{partition}")
            if folder is not None:
                yield folder


async def _first(store: ObjectStore, prefix: str, after: str) -> str | None:
    async for info in store.list(prefix, after):
        return info.key
    return None
