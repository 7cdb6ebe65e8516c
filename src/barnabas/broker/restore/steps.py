"""Execution of a restore plan. The metadata of the new cluster are written last and atomically.

    1  incarnation raised     the old cluster stops writing snapshots of its state
    2  manifests claimed      each by a CAS, which fences uploads and deletions of the old cluster
    3  offsets written        for the group coordinators of the new cluster
    4  state written          the new cluster could be restored from here on
    5  metadata written       the new cluster exists

An interrupted restore can be run again: it starts with the next incarnation and loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from barnabas.broker.restore.plan import RestorePlan, RestoreProgress, RestoreRefusedError, stored_topics
from barnabas.broker.restore.targets import RestoreTarget
from barnabas.broker.tiering.cluster_snapshots import encode_image
from barnabas.cluster.image import MetadataImage
from barnabas.common.types import TopicPartition
from barnabas.controller import restored_image
from barnabas.tiering.objects import Manifest, PartitionFolder, group_state_key
from barnabas.tiering.restoring import (
    RestoredPartition,
    SavedGroupOffset,
    SavedGroupState,
    encode_group_state,
    for_each,
    look,
    raise_incarnation,
    take,
    write_cluster_state,
)
from barnabas.tiering.stores import ObjectStore, StoreError

# -- Committed offsets of a restored cluster: never beyond the end of the restored log -----------------

NO_EPOCH = -1


def bounded(
    offsets: Iterable[SavedGroupOffset], image: MetadataImage, ends: Mapping[TopicPartition, int]
) -> Iterator[SavedGroupOffset]:
    """Yield the offsets of restored partitions, reduced to the end of the restored log where they exceed it."""
    for each in offsets:
        if image.partition(each.topic, each.partition) is None:
            continue
        end = ends.get(TopicPartition(each.topic, each.partition), 0)
        yield each if each.offset <= end else replace(each, offset=end, leader_epoch=NO_EPOCH)


class RestoreStep(StrEnum):
    INCARNATION_RAISED = "incarnation raised"
    MANIFEST_CLAIMED = "manifest claimed"
    OFFSETS_WRITTEN = "offsets written"
    STATE_WRITTEN = "state written"
    METADATA_WRITTEN = "metadata written"


At = Callable[[RestoreStep], None]


class Restored(NamedTuple):
    incarnation: int
    image: MetadataImage
    offsets: int


async def restore_cluster(
    store: ObjectStore,
    plan: RestorePlan,
    target: RestoreTarget,
    progress: RestoreProgress = RestoreProgress(),  # noqa: B008 - immutable
    at: At = lambda step: None,
) -> Restored:
    """Execute a plan. Call `target.check()` first. Raises StoreError or RestoreRefusedError on failure."""
    incarnation = await raise_incarnation(store, plan.cluster_id, time.time_ns() // 1_000_000)
    at(RestoreStep.INCARNATION_RAISED)
    taken = await _take_all(store, plan, incarnation, progress, at)
    stored = stored_topics(taken)
    image = restored_image(plan.image, stored, plan.deleted, incarnation, target.brokers)
    await _create_missing(store, image, taken, incarnation)
    count = await _write_offsets(store, plan, image, taken, at)
    await write_cluster_state(store, plan.cluster_id, incarnation, image.offset, encode_image(image))
    at(RestoreStep.STATE_WRITTEN)
    await target.write(image)
    at(RestoreStep.METADATA_WRITTEN)
    return Restored(incarnation, image, count)


async def _take_all(
    store: ObjectStore, plan: RestorePlan, incarnation: int, progress: RestoreProgress, at: At
) -> list[RestoredPartition]:
    kept = plan.kept
    progress.total("claiming partitions", len(kept))

    async def one(found: RestoredPartition) -> Manifest:
        manifest = await take(store, found, incarnation)
        at(RestoreStep.MANIFEST_CLAIMED)
        return manifest

    results = await for_each(kept, one, progress.one_done)
    errors = [each for each in results if isinstance(each, StoreError)]
    if errors:
        raise RestoreRefusedError(
            f"{len(errors)} of {len(kept)} partitions could not be claimed; no cluster was created. Retry.\n"
            f"First error: {errors[0].message}"
        )
    manifests = [each for each in results if isinstance(each, Manifest)]
    return [found._replace(manifest=manifest) for found, manifest in zip(kept, manifests, strict=True)]


async def _create_missing(
    store: ObjectStore, image: MetadataImage, taken: list[RestoredPartition], incarnation: int
) -> None:
    """Create missing manifests for the partitions of restored topics: a leader waits for its manifest."""
    there = {each.folder for each in taken}
    topics = {(each.folder.topic, each.folder.topic_id) for each in taken}
    for name, topic_id in topics:
        for index in range(len(image.topics[name].partitions)):
            folder = PartitionFolder(image.cluster_id, name, topic_id, index)
            if folder not in there:
                await take(store, await look(store, folder), incarnation)


async def _write_offsets(
    store: ObjectStore, plan: RestorePlan, image: MetadataImage, taken: list[RestoredPartition], at: At
) -> int:
    """Copy committed offsets from the previous incarnation to this one, and return their number."""
    ends = {
        TopicPartition(each.folder.topic, each.folder.partition): each.manifest.tiered_end for each in taken
    }
    states = [SavedGroupState(0, 0, tuple(bounded(each.offsets, image, ends))) for each in plan.offsets]

    async def one(index: int) -> None:
        key = group_state_key(plan.cluster_id, image.incarnation, index)
        await store.put(key, encode_group_state(states[index]))

    written = await for_each(range(len(states)), one, lambda: None)
    errors = [each for each in written if isinstance(each, StoreError)]
    if errors:
        raise errors[0]
    at(RestoreStep.OFFSETS_WRITTEN)
    return sum(len(each.offsets) for each in states)
