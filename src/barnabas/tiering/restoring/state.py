"""Metadata and committed offsets that a running cluster stores at most once a minute.

    <cluster id>/cluster/<incarnation:010>-<metadata offset:020>     the latest few are kept
                /groups/<incarnation:010>-<partition>                of `__consumer_offsets`, each replaced

The metadata is opaque here: an entry of the cluster's metadata log with a whole image. Every key contains the
incarnation, so an earlier incarnation cannot overwrite data of a later one; it stops when it detects a later one.
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
"""Number of metadata images kept: the previous one is used if the latest is damaged."""


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
    """All committed offsets of one partition of `__consumer_offsets`, from its coordinator of `leader_epoch`."""

    leader_epoch: int
    log_end: int
    offsets: tuple[SavedGroupOffset, ...]


class ClusterState(msgspec.Struct, frozen=True):
    """Stored metadata image, encoded."""

    key: str
    incarnation: int
    data: bytes


async def write_cluster_state(
    store: ObjectStore, cluster_id: str, incarnation: int, offset: int, data: bytes
) -> None:
    """Store a metadata image, then delete old ones, including those of earlier incarnations."""
    prefix = cluster_state_prefix(cluster_id)
    await store.put(f"{prefix}{incarnation:010}-{offset:020}", data)
    keys = [info.key async for info in store.list(prefix)]
    for key in keys[:-KEPT]:
        await store.delete(key)


async def read_cluster_state(store: ObjectStore, cluster_id: str) -> ClusterState | None:
    """Return the latest image of the latest incarnation; None if there is none."""
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
    """Write the state and return its version for the next write; None if another coordinator has written first."""
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
