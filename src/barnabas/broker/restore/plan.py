"""Plan of a restore: the state of a cluster in the object store, and the resulting topics. Read-only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.cluster import DamagedMetadataError, decode_entries, image_from_snapshot
from barnabas.cluster.image import MetadataImage
from barnabas.common.types import Uuid
from barnabas.controller import TIERED, RestoredTopics, StoredTopic, sort_topics
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.tiering.objects import PartitionFolder
from barnabas.tiering.restoring import (
    ClusterState,
    DamagedStateError,
    RestoredPartition,
    SavedGroupState,
    find_clusters,
    find_partitions,
    for_each,
    look,
    read_cluster_state,
    read_group_state,
    read_incarnation,
)
from barnabas.tiering.stores import ObjectStore, StoreError

PROBLEMS_SHOWN = 10


class RestoreRefusedError(StoreError):
    """The restore is not possible, and nothing was changed. The message says what to do."""


class RestoreProgress(NamedTuple):
    """Progress callbacks."""

    total: Callable[[str, int], None] = lambda what, count: None
    one_done: Callable[[], None] = lambda: None


class RestorePlan(NamedTuple):
    cluster_id: str
    state: ClusterState
    image: MetadataImage
    """The image in the latest snapshot."""
    found: tuple[RestoredPartition, ...]
    topics: RestoredTopics
    offsets: tuple[SavedGroupState, ...]
    """By partition of `__consumer_offsets`."""

    @property
    def deleted(self) -> set[Uuid]:
        return {each.folder.topic_id for each in self.found if each.is_deleted}

    @property
    def kept(self) -> list[RestoredPartition]:
        """Partitions that will be restored."""
        left_out = {topic.topic_id for topic in self.topics.unnamed}
        return [each for each in self.found if not each.is_deleted and each.folder.topic_id not in left_out]

    @property
    def stored(self) -> list[StoredTopic]:
        return stored_topics(self.kept)

    @property
    def cuts(self) -> list[RestoredPartition]:
        return [each for each in self.kept if each.cut_at is not None]

    @property
    def loses(self) -> bool:
        """True if the restore loses more than the records that had not been uploaded."""
        return bool(self.topics.empty or self.cuts)


def stored_topics(found: list[RestoredPartition]) -> list[StoredTopic]:
    topics: dict[tuple[str, Uuid], dict[int, int]] = {}
    for each in found:
        folder = each.folder
        epochs = topics.setdefault((folder.topic, folder.topic_id), {})
        epochs[folder.partition] = each.manifest.latest_epoch
    return [StoredTopic(name, topic_id, epochs) for (name, topic_id), epochs in sorted(topics.items())]


async def choose_cluster(store: ObjectStore, url: str, wanted: str | None) -> str:
    """Return the requested cluster, or the only one in the store."""
    there = await find_clusters(store)
    if not there:
        raise RestoreRefusedError(f"no data of Barnabas in {url}: is this the right bucket and prefix?")
    listed = "\n".join(f"  {each}" for each in there)
    if wanted is None:
        if len(there) > 1:
            raise RestoreRefusedError(
                f"{url} has data of several clusters; choose one with --cluster-id:\n{listed}"
            )
        return there[0]
    if wanted not in there:
        raise RestoreRefusedError(f"no data of cluster {wanted} in {url}. Available clusters:\n{listed}")
    return wanted


async def make_plan(
    store: ObjectStore,
    cluster_id: str,
    progress: RestoreProgress = RestoreProgress(),  # noqa: B008 - immutable
) -> RestorePlan:
    """Read everything needed for a restore. Raises RestoreRefusedError if any object cannot be read."""
    state, image = await read_image(store, cluster_id)
    await read_incarnation(store, cluster_id)  # raises if it is damaged
    folders = await _folders(store, cluster_id, image)
    progress.total("reading partitions", len(folders))
    looked = await for_each(folders, lambda folder: look(store, folder), progress.one_done)
    groups = await for_each(
        _group_partitions(image), lambda index: _offsets(store, state, index), lambda: None
    )
    if errors := [each for each in (*looked, *groups) if isinstance(each, StoreError)]:
        raise _unreadable(errors)
    found = tuple(each for each in looked if isinstance(each, RestoredPartition))
    offsets = tuple(each for each in groups if isinstance(each, SavedGroupState))
    live = [each for each in found if not each.is_deleted]
    deleted = {each.folder.topic_id for each in found if each.is_deleted}
    topics = sort_topics(image, stored_topics(live), deleted)
    return RestorePlan(cluster_id, state, image, found, topics, offsets)


def _group_partitions(image: MetadataImage) -> range:
    topic = image.topics.get(CONSUMER_OFFSETS)
    return range(len(topic.partitions)) if topic is not None else range(0)


async def _offsets(store: ObjectStore, state: ClusterState, index: int) -> SavedGroupState:
    cluster_id = state.key.partition("/")[0]
    found = await read_group_state(store, cluster_id, state.incarnation, index)
    return found or SavedGroupState(0, 0, ())


async def read_image(store: ObjectStore, cluster_id: str) -> tuple[ClusterState, MetadataImage]:
    """Return the latest metadata snapshot of a cluster."""
    try:
        state = await read_cluster_state(store, cluster_id)
    except DamagedStateError as error:
        raise RestoreRefusedError(error.message) from error
    if state is None:
        raise RestoreRefusedError(
            f"There are objects of cluster {cluster_id}, but no metadata: the cluster has not written a snapshot yet "
            f"({cluster_id}/cluster/ is empty)."
        )
    try:
        entries, end = decode_entries(state.data)
    except DamagedMetadataError as error:
        raise RestoreRefusedError(f"{state.key}: {error}") from error
    if len(entries) != 1 or end != len(state.data):
        raise RestoreRefusedError(
            f"{state.key} is damaged or truncated; it was not changed. If there is an older one next to it, remove "
            "this one, and restore from the older one."
        )
    return state, image_from_snapshot(entries[0].deltas, entries[0].offset)


async def _folders(store: ObjectStore, cluster_id: str, image: MetadataImage) -> list[PartitionFolder]:
    """Partitions of tiered topics in the image, and of topics found only in the store."""
    folders = [
        PartitionFolder(cluster_id, topic.name, topic.topic_id, index)
        for topic, index, _ in image.partitions()
        if image.topic_configs(topic.name).get(TIERED, "").lower() == "true"
    ]
    known = {(folder.topic, folder.topic_id) for folder in folders}
    return folders + [each async for each in find_partitions(store, cluster_id, known)]


def _unreadable(errors: list[StoreError]) -> RestoreRefusedError:
    lines = [error.message for error in errors[:PROBLEMS_SHOWN]]
    if len(errors) > PROBLEMS_SHOWN:
        lines.append(f"and {len(errors) - PROBLEMS_SHOWN} more")
    return RestoreRefusedError("Nothing was changed:\n" + "\n".join(lines))
