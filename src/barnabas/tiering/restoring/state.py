"""State that a running cluster stores at most once a minute: its metadata and committed offsets.

    <cluster id>/cluster/<incarnation:010>-<metadata offset:020>     the newest few are kept
                /groups/<incarnation:010>-<partition>                of `__consumer_offsets`, each replaced

The bytes of the metadata are the cluster's own affair: an entry of its log that holds a whole image. The incarnation is
part of every key, so an earlier incarnation overwrites nothing of a later one; and it stops when it sees that there is
a later one.
"""

from __future__ import annotations

import msgspec

from barnabas.tiering.objects.layout import DamagedError, cluster_state_prefix, group_state_key, seal, unseal
from barnabas.tiering.restoring.discovery import DamagedStateError
from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectStore,
    StaleVersionError,
)

KEPT = 3
"""Of the metadata: the one before helps if the newest is damaged."""


class SavedGroupOffset(msgspec.Struct, frozen=True, array_like=True):
    """One committed offset."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int
    topic_id: str


class SavedGroupState(msgspec.Struct, frozen=True):
    """All offsets of one partition of `__consumer_offsets`, as its coordinator of `leader_epoch` saw them."""

    leader_epoch: int
    log_end: int
    offsets: tuple[SavedGroupOffset, ...]


class ClusterState(msgspec.Struct, frozen=True):
    """One written image, as bytes."""

    key: str
    incarnation: int
    data: bytes


async def write_cluster_state(
    store: ObjectStore, cluster_id: str, incarnation: int, offset: int, data: bytes
) -> None:
    """Then older ones go, also those of earlier incarnations."""
    prefix = cluster_state_prefix(cluster_id)
    await store.put(f"{prefix}{incarnation:010}-{offset:020}", data)
    keys = [info.key async for info in store.list(prefix)]
    for key in keys[:-KEPT]:
        await store.delete(key)


async def read_cluster_state(store: ObjectStore, cluster_id: str) -> ClusterState | None:
    """The newest of the latest incarnation."""
    prefix = cluster_state_prefix(cluster_id)
    keys = [info.key async for info in store.list(prefix)]
    if not keys:
        return None
    name = keys[-1].removeprefix(prefix)
    try:
        incarnation = int(name.partition("-")[0])
    except ValueError:
        raise DamagedStateError(f"{keys[-1]} is not the name of a cluster's metadata") from None
    return ClusterState(keys[-1], incarnation, (await store.get(keys[-1])).data)


def encode_group_state(state: SavedGroupState) -> bytes:
    """Encode the state. Slow: run in a thread."""
    return seal(state)


async def write_group_state(
    store: ObjectStore, key: str, leader_epoch: int, data: bytes, version: str | None = None
) -> str | None:
    """Its version, which the next write takes. None if a later coordinator has written, or has been faster."""
    try:
        if version is not None:
            return await store.replace(key, data, version)
        found = await store.get(key)
        if _decode(key, found.data).leader_epoch > leader_epoch:
            return None
        return await store.replace(key, data, found.version)
    except MissingObjectError:
        return await _create(store, key, data)
    except StaleVersionError:
        return None


async def _create(store: ObjectStore, key: str, data: bytes) -> str | None:
    try:
        return await store.create(key, data)
    except ObjectExistsError:
        return None


async def read_group_state(
    store: ObjectStore, cluster_id: str, incarnation: int, partition: int
) -> SavedGroupState | None:
    key = group_state_key(cluster_id, incarnation, partition)
    try:
        return _decode(key, (await store.get(key)).data)
    except MissingObjectError:
        return None


def _decode(key: str, data: bytes) -> SavedGroupState:
    try:
        return unseal(data, SavedGroupState)
    except DamagedError as error:
        raise DamagedStateError(f"{key} is damaged: {error}") from error
