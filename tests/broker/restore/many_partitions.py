"""A store with any number of partitions, created without a broker, to measure a restore.

await fill(store, 1000)
plan = await make_plan(store, CLUSTER)
await restore_cluster(store, plan, FolderTarget(folder, 1))
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from barnabas.broker.tiering.cluster_snapshots import encode_image
from barnabas.cluster.deltas import ConfigsChanged, FeatureFinalized, TopicCreated, apply
from barnabas.cluster.features import METADATA_VERSION, NEWEST_LEVEL
from barnabas.cluster.image import EMPTY_IMAGE, ConfigResourceType, MetadataImage, PartitionState, TopicState
from barnabas.tiering.objects.layout import PartitionFolder, SegmentName
from barnabas.tiering.objects.manifest import Manifest, ManifestWriter, encode
from barnabas.tiering.objects.manifest_changes import add, new_manifest
from barnabas.tiering.objects.segment_build import SegmentBuild, at_once
from barnabas.tiering.restoring.state import write_cluster_state
from barnabas.tiering.stores.store import ObjectStore
from tests.support.builders.segments import sealed

CLUSTER = "a-large-cluster"
TOPIC_ID = bytes([3] * 16)
SEGMENTS = 3
RECORDS = 10  # in each
WRITER = ManifestWriter(0, 0, "a test")
AT_ONCE = 64


async def fill(store: ObjectStore, partitions: int) -> MetadataImage:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(index: int) -> None:
        async with room:
            await _fill_partition(store, PartitionFolder(CLUSTER, "many", TOPIC_ID, index))

    await asyncio.gather(*map(one, range(partitions)))
    state = PartitionState((1,), (1,), 1)
    image = apply(
        replace(EMPTY_IMAGE, cluster_id=CLUSTER),
        [
            FeatureFinalized(METADATA_VERSION, NEWEST_LEVEL),
            TopicCreated(TopicState("many", TOPIC_ID, (state,) * partitions)),
            ConfigsChanged(
                ConfigResourceType.TOPIC, "many", {"remote.storage.enable": "true", "retention.ms": "-1"}
            ),
        ],
    )
    await write_cluster_state(store, CLUSTER, 0, image.offset, encode_image(image))
    return image


async def _fill_partition(store: ObjectStore, folder: PartitionFolder) -> Manifest:
    manifest = new_manifest(folder, WRITER, 0)
    for number in range(SEGMENTS):
        segment = sealed(number * RECORDS, (number + 1) * RECORDS)
        name = str(SegmentName(segment.base, 0, f"{number:08x}"))
        build = SegmentBuild(folder, segment, 0, name)
        await store.put(folder.key(name), b"".join([piece async for piece in build.pieces(at_once)]))
        assert build.entry is not None
        manifest = add(manifest, build.entry)
    await store.put(folder.manifest, encode(manifest))
    return manifest
