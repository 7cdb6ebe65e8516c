"""Clusters, topics and partitions of a bucket, for readers without a broker.

Reads only folder names and manifests: one request for the partitions of a topic, and one per partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from barnabas.common.types import Uuid, uuid_to_text
from barnabas.tiering.objects.layout import (
    PartitionFolder,
    parse_partition_prefix,
    topic_prefix,
    topics_prefix,
)
from barnabas.tiering.objects.manifest import Manifest, ManifestState
from barnabas.tiering.objects.manifest_file import read_manifest
from barnabas.tiering.stores.store import BrowsableStore, ObjectReader, StoreError

TOPICS, PROBE = "topics", "probe"


class BucketError(StoreError):
    """Unknown or ambiguous name; the message lists the candidates."""


class TopicFolder(NamedTuple):
    cluster_id: str
    topic: str
    topic_id: Uuid

    @property
    def name(self) -> str:
        """Name in the bucket; unique, because it includes the topic id."""
        return f"{self.topic}.{uuid_to_text(self.topic_id)}"

    @property
    def prefix(self) -> str:
        return topic_prefix(self.cluster_id, self.topic, self.topic_id)


class BucketPartition(NamedTuple):
    folder: PartitionFolder
    manifest: Manifest


async def find_cluster(store: BrowsableStore, cluster_id: str | None) -> str:
    """Return the given cluster, or the only one in the bucket."""
    names = [name for name in await store.folders("") if name != PROBE]
    inside = await asyncio.gather(*(store.folders(f"{name}/") for name in names))
    found = [name for name, below in zip(names, inside, strict=True) if TOPICS in below]
    if cluster_id is not None and cluster_id not in found:
        raise BucketError(f"No data of cluster {cluster_id}. Available clusters: {_listed(found) or 'none'}.")
    if not found:
        raise BucketError("No data of Barnabas: is this the right bucket and prefix?")
    if cluster_id is None and len(found) > 1:
        raise BucketError(f"There are several clusters: {_listed(found)}. Choose one.")
    return cluster_id or found[0]


async def find_topics(store: BrowsableStore, cluster_id: str) -> list[TopicFolder]:
    """Return all topics with objects in the bucket."""
    found = []
    for name in await store.folders(topics_prefix(cluster_id)):
        folder = parse_partition_prefix(f"{topics_prefix(cluster_id)}{name}/0/")
        if folder is not None:
            found.append(TopicFolder(cluster_id, folder.topic, folder.topic_id))
    return found


async def read_partitions(
    store: BrowsableStore, reader: ObjectReader, topic: TopicFolder
) -> list[BucketPartition]:
    """Return partitions that have a manifest and are not deleted, by number."""
    numbers = sorted(int(name) for name in await store.folders(topic.prefix) if name.isdigit())
    folders = [PartitionFolder(*topic, number) for number in numbers]
    read = await asyncio.gather(*(read_manifest(reader, folder) for folder in folders))
    return [
        BucketPartition(folder, seen.manifest)
        for folder, seen in zip(folders, read, strict=True)
        if seen is not None and seen.manifest.state is ManifestState.LIVE
    ]


def by_name(topics: Mapping[TopicFolder, list[BucketPartition]]) -> dict[str, list[BucketPartition]]:
    """Group by topic name; BucketError if several live topics have the same name: then use `TopicFolder.name`."""
    found: dict[str, TopicFolder] = {}
    for topic, partitions in topics.items():
        if not partitions:
            continue  # being deleted
        if topic.topic in found:
            both = _listed([found[topic.topic].name, topic.name])
            raise BucketError(f"There are two topics {topic.topic}: {both}. Choose one.")
        found[topic.topic] = topic
    return {name: topics[topic] for name, topic in found.items()}


def select_topics(topics: Collection[TopicFolder], names: Iterable[str]) -> list[TopicFolder]:
    """Return topics with one of the names, with or without the id. BucketError if a name is unknown."""
    found: list[TopicFolder] = []
    for name in names:
        some = [topic for topic in topics if name in (topic.topic, topic.name)]
        if not some:
            known = _listed(sorted({topic.topic for topic in topics}))
            raise BucketError(f"Topic {name} is not in the object store. Topics: {known or 'none'}.")
        found += some
    return found


def _listed(names: Iterable[str], limit: int = 20) -> str:
    all_of_them = list(names)
    more = f" and {len(all_of_them) - limit} more" if len(all_of_them) > limit else ""
    return ", ".join(all_of_them[:limit]) + more
