"""`barnabas snapshot restore`: new topics that read the objects of a snapshot. Only manifests are copied.

    1  the topic is created, with `barnabas.remote.origin`: its leaders wait for a manifest
    2  the manifests are written; each pins the objects of its source
    3  the leaders begin where the snapshot ends

An interrupted restore can be run again: it completes topics with the same origin.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barnabas.cli.output import ProgressBar
from barnabas.cli.tiering.stores import CloneRefusedError
from barnabas.client import Client, ClientError, admin
from barnabas.client.offsets import LATEST, list_offsets_once
from barnabas.cluster.image import ConfigResourceType
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.remote_origin import REMOTE_ORIGIN, RemoteOrigin
from barnabas.tiering import (
    BEFORE_ANY_LEADER,
    SnapshotState,
    TieredSnapshot,
    clone_partition,
    read_copy,
    read_snapshot,
)
from barnabas.tiering.objects import (
    Manifest,
    ManifestWriter,
    PartitionFolder,
    encode,
    new_manifest,
    parse_partition_prefix,
    read_manifest,
)
from barnabas.tiering.restoring import read_incarnation
from barnabas.tiering.stores import ObjectExistsError, ObjectStore

STORE_URL = "barnabas.remote.storage.url"
RETAIN_ALL = {"remote.storage.enable": "true", "retention.ms": "-1", "retention.bytes": "-1"}
"""Restored records must not expire immediately; overridden by `--set`."""
BEGIN_SECONDS = 120.0
POLL_AGAIN_SECONDS = 0.2


class SourceTopic(NamedTuple):
    """A topic in the snapshot."""

    name: str
    copies: Mapping[int, tuple[PartitionFolder, Manifest]]

    @property
    def partitions(self) -> int:
        return max(self.copies) + 1

    @property
    def first_epoch(self) -> int:
        """An epoch above those of all records."""
        epochs = [manifest.epochs for _, manifest in self.copies.values()]
        return max((each[-1][0] for each in epochs if each), default=-1) + 1

    @property
    def ends(self) -> dict[int, int]:
        return {index: manifest.tiered_end for index, (_, manifest) in self.copies.items()}

    @property
    def size(self) -> int:
        return sum(manifest.size for _, manifest in self.copies.values())


class Clone(NamedTuple):
    source: SourceTopic
    name: str
    origin: RemoteOrigin


async def plan_clones(
    client: Client,
    store: ObjectStore,
    url: str,
    snapshot_name: str,
    names: Mapping[str, str],
    only: Sequence[str] | None,
    to: str | None,
) -> list[Clone]:
    """CloneRefusedError, SnapshotError or KafkaError if it cannot be done; with nothing changed."""
    await client.refresh([])
    cluster_id = client.metadata.cluster_id or ""
    await _check_same_store(client, url)
    snapshot = await read_snapshot(store, cluster_id, snapshot_name)
    if snapshot.state is not SnapshotState.COMPLETE:
        raise CloneRefusedError(
            f"The snapshot {snapshot_name} is {snapshot.state.value}: it cannot be restored."
        )
    topics = await _topics(store, snapshot)
    chosen = _chosen(snapshot_name, topics, only)
    targets = _target_names(chosen, names, to)
    clones = []
    for source in chosen:
        origin = RemoteOrigin(source.partitions, snapshot_name, source.name, leader_epoch=source.first_epoch)
        clones.append(Clone(source, targets[source.name], origin))
    return clones


async def _check_same_store(client: Client, url: str) -> None:
    """Check the bucket: brokers would not find a clone in another one."""
    broker = min(client.metadata.brokers)
    found = await admin.describe_configs(client, ConfigResourceType.BROKER, str(broker))
    remote_url = next((each.value for each in found if each.name == STORE_URL), None)
    if not remote_url:
        raise CloneRefusedError(
            "The cluster has no tiered storage: set remote.log.storage.system.enable and "
            f"{STORE_URL} of its brokers, and start them again."
        )
    if remote_url.rstrip("/") != url.rstrip("/"):
        raise CloneRefusedError(f"The brokers keep their history in {remote_url}, not in {url}.")


async def _topics(store: ObjectStore, snapshot: TieredSnapshot) -> dict[str, SourceTopic]:
    copies: dict[str, dict[int, tuple[PartitionFolder, Manifest]]] = {}
    for partition in snapshot.partitions:
        folder = parse_partition_prefix(partition.prefix)
        if folder is not None:
            copy = await read_copy(store, snapshot.name, folder)
            copies.setdefault(folder.topic, {})[folder.partition] = folder, copy
    return {name: SourceTopic(name, found) for name, found in copies.items()}


def _chosen(
    snapshot: str, topics: Mapping[str, SourceTopic], only: Sequence[str] | None
) -> list[SourceTopic]:
    missing = [name for name in only or () if name not in topics]
    if missing:
        raise CloneRefusedError(
            f"The snapshot {snapshot} has no topic {', '.join(missing)}. It has: {', '.join(sorted(topics))}"
        )
    return [topics[name] for name in dict.fromkeys(only or sorted(topics))]


def _target_names(chosen: Sequence[SourceTopic], names: Mapping[str, str], to: str | None) -> dict[str, str]:
    if to is not None:
        if len(chosen) != 1:
            listed = ", ".join(each.name for each in chosen)
            raise CloneRefusedError(
                f"--to names one topic, and there are {len(chosen)}: {listed}. Use --rename."
            )
        return {chosen[0].name: to}
    unnamed = [each.name for each in chosen if each.name not in names]
    if unnamed:
        raise CloneRefusedError(f"name them with --rename {unnamed[0]}=NEW for each of {', '.join(unnamed)}")
    if len({names[each.name] for each in chosen}) < len(chosen):
        raise CloneRefusedError("Two topics would have the same name.")
    return dict(names)


# -- execution ----------------------------------------------------------------------------------


async def check_clone(client: Client, clone: Clone, settings: Mapping[str, str], replicas: int) -> None:
    """CloneRefusedError if the topic exists, unless an interrupted restore created it."""
    try:
        await _create(client, clone, settings, replicas, validate_only=True)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        origins = await admin.setting_of_topics(client, [clone.name], REMOTE_ORIGIN)
        if origins.get(clone.name) != str(clone.origin):
            raise CloneRefusedError(f"Topic {clone.name} already exists: choose another name.") from None


async def carry_out(
    client: Client,
    store: ObjectStore,
    clone: Clone,
    settings: Mapping[str, str],
    replicas: int,
    progress: ProgressBar,
    done: int,
) -> int:
    """Create the topic, write its manifests and wait for its leaders. Returns `done` plus its partitions."""
    try:
        await _create(client, clone, settings, replicas)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    topic_id = await _topic_id(client, clone.name)
    cluster_id = client.metadata.cluster_id or ""
    incarnation = await read_incarnation(store, cluster_id)
    for index in range(clone.source.partitions):
        target = PartitionFolder(cluster_id, clone.name, topic_id, index)
        await _write_manifest(store, clone, target, incarnation)
        done += 1
        progress.reached(done)
    await _until_begun(client, clone)
    return done


async def _create(
    client: Client, clone: Clone, settings: Mapping[str, str], replicas: int, *, validate_only: bool = False
) -> None:
    await admin.create_topic(
        client,
        clone.name,
        partitions=clone.source.partitions,
        replication_factor=replicas,
        configs={**RETAIN_ALL, **settings, REMOTE_ORIGIN: str(clone.origin)},
        validate_only=validate_only,
    )


async def _topic_id(client: Client, name: str) -> Uuid:
    return (await client.topics([name]))[name].id


async def _write_manifest(
    store: ObjectStore, clone: Clone, target: PartitionFolder, incarnation: int
) -> None:
    if await read_manifest(store, target) is not None:
        return  # created by an interrupted restore; its leader may have claimed it
    now_ms = time.time_ns() // 1_000_000
    copy = clone.source.copies.get(target.partition)
    if copy is not None:
        await clone_partition(store, clone.origin.snapshot, copy[0], target, incarnation, now_ms)
        return
    writer = ManifestWriter(
        incarnation, BEFORE_ANY_LEADER, f"snapshot {clone.origin.snapshot}, which has nothing of it"
    )
    try:
        await store.create(target.manifest, encode(new_manifest(target, writer, 0)))
    except ObjectExistsError:
        return


async def _until_begun(client: Client, clone: Clone) -> None:
    """Wait until every partition has a leader and ends at the snapshot's end or later."""
    waiting = {TopicPartition(clone.name, index): end for index, end in clone.source.ends.items()}
    deadline = time.monotonic() + BEGIN_SECONDS
    while waiting:
        ends = await _ends(client, list(waiting))
        waiting = {tp: end for tp, end in waiting.items() if ends.get(tp, -1) < end}
        if waiting and time.monotonic() > deadline:
            names = ", ".join(str(tp) for tp in list(waiting)[:5])
            raise CloneRefusedError(
                f"The records are there, but {names} has not begun within {BEGIN_SECONDS:g} s: its leader cannot read "
                "the store, or is down. See the brokers' logs; they retry automatically."
            )
        if waiting:
            await asyncio.sleep(POLL_AGAIN_SECONDS)


async def _ends(client: Client, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    try:
        await client.refresh({tp.topic for tp in partitions})
        answers = await list_offsets_once(client, dict.fromkeys(partitions, LATEST))
    except (KafkaError, ClientError):
        return {}
    return {tp: answer.offset for tp, answer in answers.items()}
