"""Tiered topics of a chaos run: settings, and invariants of the object store."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from barnabas.tiering.objects.layout import (
    PartitionFolder,
    parse_object_name,
    parse_partition_prefix,
    topics_prefix,
)
from barnabas.tiering.objects.manifest import Manifest, ManifestWriter
from barnabas.tiering.objects.manifest_file import ManifestFile, read_manifest
from barnabas.tiering.stores.store import ObjectStore
from barnabas.tiering.writing.expiration import delete_all, find_orphans
from tests.chaos.cluster import ChaosCluster
from tests.chaos.loads import PARTITIONS
from tests.chaos.store import ChaosStore
from tests.support.waiting import until

TOPIC_SETTINGS = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "16384",
    "local.retention.ms": "1000",
    "retention.ms": "-1",
}
SETTLING_SECONDS = 120.0


def check_tiers(cluster: ChaosCluster, topic: str) -> None:
    """Most of the topic is copied, every object is valid, and a sweep leaves no unlisted object."""
    store = cluster.store
    assert store is not None
    until(lambda: _is_copied(store, topic), "every partition has segments in the store", SETTLING_SECONDS)
    verify(cluster, topic, store)
    left: list[str] = []

    def is_tidy() -> bool:
        left[:] = asyncio.run(_left_behind(store, topic))
        return not left

    try:
        until(is_tidy, "nothing is left behind", SETTLING_SECONDS)
    except AssertionError:
        raise AssertionError(f"objects that nobody lists: {left}") from None


def _is_copied(store: ChaosStore, topic: str) -> bool:
    manifests = asyncio.run(_manifests(store, topic))
    return len(manifests) == PARTITIONS and all(manifest.entries for manifest in manifests.values())


async def _manifests(store: ChaosStore, topic: str) -> dict[PartitionFolder, Manifest]:
    opened = store.open()
    try:
        folders = await _folders(opened, topic)
        found = {folder: await read_manifest(opened, folder) for folder in folders}
        return {folder: seen.manifest for folder, seen in found.items() if seen is not None}
    finally:
        await opened.close()


async def _folders(store: ObjectStore, topic: str) -> set[PartitionFolder]:
    found = set()
    async for info in store.list(""):
        cluster_id, _, _ = info.key.partition("/")
        folder = parse_partition_prefix(info.key.rpartition("/")[0] + "/")
        if folder is not None and info.key.startswith(topics_prefix(cluster_id)) and folder.topic == topic:
            found.add(folder)
    return found


async def _left_behind(store: ChaosStore, topic: str) -> list[str]:
    """Run the daily sweep of a leader."""
    opened = store.open()
    try:
        left: list[str] = []
        for folder in await _folders(opened, topic):
            left += await _unlisted(opened, folder)
        return left
    finally:
        await opened.close()


async def _unlisted(store: ObjectStore, folder: PartitionFolder) -> list[str]:
    seen = await read_manifest(store, folder)
    assert seen is not None, f"{folder.manifest} is gone"
    writer = ManifestWriter(seen.manifest.incarnation, seen.manifest.leader_epoch, seen.manifest.writer)
    file = ManifestFile(store, folder, writer, seen)
    await delete_all(store, [info.key async for info in find_orphans(store, file, 0)])
    names = [info.key.removeprefix(folder.prefix) async for info in store.list(folder.prefix)]
    named = seen.manifest.named()
    return [name for name in names if parse_object_name(name) is not None and name not in named]


def verify(cluster: ChaosCluster, topic: str, store: ChaosStore) -> None:
    """`barnabas tier verify`, as an operator runs it."""
    options = [part for name, value in store.options.items() for part in ("--option", f"{name}={value}")]
    where = ["--store", store.url, "--bootstrap-server", cluster.clients.bootstrap_servers]
    command = [sys.executable, "-m", "barnabas", "tier", "verify", topic, *where, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"barnabas tier verify: {done.stdout}{done.stderr}"
