"""Find the clusters of a bucket and their partitions.

A LIST can start after any key, so known prefixes are skipped: it takes one request per cluster or partition, not one
per thousand objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import msgspec

from barnabas.common.types import Uuid
from barnabas.tiering.objects.layout import (
    DamagedError,
    PartitionFolder,
    behind,
    incarnation_key,
    parse_partition_prefix,
    seal,
    topic_prefix,
    topics_prefix,
    unseal,
)
from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectStore,
    StaleVersionError,
    StoreError,
    StoreUnavailableError,
)

# -- Incarnation of a cluster: 0 at first, incremented by each restore ---------------------------------

ATTEMPTS = 5


class Incarnation(msgspec.Struct, frozen=True):
    number: int
    since_ms: int


class DamagedStateError(StoreError):
    """Damaged stored state of a cluster. It is never overwritten."""


async def read_incarnation(store: ObjectStore, cluster_id: str) -> int:
    """Return the incarnation that may write; 0 if none is stored."""
    return (await _read(store, cluster_id))[0]


async def begin_incarnation(store: ObjectStore, cluster_id: str, now_ms: int) -> None:
    """Store the first incarnation of a new cluster, before anything depends on it."""
    try:
        await store.create(incarnation_key(cluster_id), seal(Incarnation(0, now_ms)))
    except ObjectExistsError:
        return


async def raise_incarnation(store: ObjectStore, cluster_id: str, now_ms: int) -> int:
    """Increment the incarnation and return it. A repetition after a crash increments it again, which is harmless: the
    previous incarnation has fenced the old cluster and is then fenced too."""
    key = incarnation_key(cluster_id)
    for _ in range(ATTEMPTS):
        number, version = await _read(store, cluster_id)
        data = seal(Incarnation(number + 1, now_ms))
        try:
            await (store.create(key, data) if version is None else store.replace(key, data, version))
        except (ObjectExistsError, StaleVersionError, StoreUnavailableError):
            continue
        return number + 1
    raise StoreUnavailableError(f"{key}: all {ATTEMPTS} attempts met concurrent changes or timeouts")


async def _read(store: ObjectStore, cluster_id: str) -> tuple[int, str | None]:
    key = incarnation_key(cluster_id)
    try:
        found = await store.get(key)
        return unseal(found.data, Incarnation).number, found.version
    except MissingObjectError:
        return 0, None
    except DamagedError as error:
        raise DamagedStateError(f"{key} is damaged: {error}") from error


OF_A_CLUSTER = frozenset(("topics", "cluster", "groups", "snapshots", "incarnation"))


async def find_clusters(store: ObjectStore) -> list[str]:
    """Return the ids of the clusters that have written to the bucket."""
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
    """Yield the folders of partitions whose topics (name and id) are not in `known`."""
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
