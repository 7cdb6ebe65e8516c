"""Invariants of manifests, objects and disks that must hold after every step."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.cluster.image import MetadataImage
from barnabas.replication.partition import Partition
from barnabas.tiering.objects.layout import PartitionFolder, parse_object_name
from barnabas.tiering.objects.manifest import Manifest, SegmentEntry, decode, decode_page
from simulation.brokers import Machine, Tiers
from simulation.clients import TOPIC, Violation
from simulation.tiers.bucket import Bucket
from simulation.tiers.topics import first_offset


class Coverage:
    """Checks manifests when they change, and disks at every step."""

    def __init__(self, tiers: Tiers, machines: list[Machine]) -> None:
        self._bucket = tiers.bucket
        self._tiers = tiers
        self._machines = machines
        self._seen: dict[int, tuple[bytes, Manifest]] = {}

    def check(self, image: MetadataImage) -> None:
        topic = image.topics.get(TOPIC)
        if topic is None:
            return
        for index in range(len(topic.partitions)):
            self._tiers.starts[index] = first_offset(self._tiers, self._machines, index)
            folder = PartitionFolder(image.cluster_id, TOPIC, topic.topic_id, index)
            manifest = self._check_manifest(index, folder)
            for number, partition in self._replicas(index):
                self._check_disk(number, partition, manifest)

    def manifest(self, index: int) -> Manifest | None:
        seen = self._seen.get(index)
        return None if seen is None else seen[1]

    def _replicas(self, index: int) -> Iterator[tuple[int, Partition]]:
        for machine in self._machines:
            if machine.broker is not None and machine.serves:
                found = machine.broker.replicas.find(TOPIC, index)
                if found is not None:
                    yield machine.number, found

    # -- object store -------------------------------------------------------------------------------

    def _check_manifest(self, index: int, folder: PartitionFolder) -> Manifest | None:
        """Check that segments have no gaps or overlaps, leave only at the start and join only at the end, and exist."""
        objects = self._bucket.objects
        if folder.manifest not in objects:
            if index in self._seen:
                raise Violation(f"{folder.manifest} is lost")
            return None
        data = objects.contents(folder.manifest)
        before, seen = self._seen.get(index, (b"", None))
        if data == before:
            return seen
        manifest = decode(data, folder)
        if seen is not None:
            _check_change(seen, manifest)
        for entry in listed(self._bucket, folder, manifest):
            self._check_object(folder, entry)
        self._seen[index] = data, manifest
        return manifest

    def _check_object(self, folder: PartitionFolder, entry: SegmentEntry) -> None:
        key = folder.key(entry.key)
        if key not in self._bucket.objects:
            raise Violation(f"{key} is listed, and not there")
        if (found := len(self._bucket.objects.contents(key))) != entry.total:
            raise Violation(f"{key} has {found} bytes, not {entry.total}")

    # -- disks --------------------------------------------------------------------------------------

    def _check_disk(self, number: int, partition: Partition, manifest: Manifest | None) -> None:
        """Check that every segment deleted from a disk is in the manifest or has expired."""
        offsets, index = partition.log.offsets, partition.index
        tiered_end = 0 if manifest is None else manifest.tiered_end
        if max(offsets.local_start, partition.log.segments[0].base_offset) > max(tiered_end, offsets.start):
            raise Violation(
                f"broker {number} has partition {index} from {offsets.local_start} on, "
                f"which starts at {offsets.start} and is copied up to {tiered_end}"
            )


def _check_change(before: Manifest, after: Manifest) -> None:
    if after.version <= before.version:
        raise Violation(f"version {before.version} of a manifest was followed by {after.version}")
    if after.fence < before.fence:
        raise Violation(f"a writer of {after.fence} has written after one of {before.fence}")
    if after.log_start < before.log_start:
        raise Violation(f"the log start of a manifest went from {before.log_start} to {after.log_start}")
    if after.tiered_end < before.tiered_end:
        raise Violation(f"the tiered end of a manifest went from {before.tiered_end} to {after.tiered_end}")


def listed(bucket: Bucket, folder: PartitionFolder, manifest: Manifest) -> Iterator[SegmentEntry]:
    """All live segments, including those in manifest pages."""
    for page in manifest.pages:
        for entry in decode_page(bucket.objects.contents(folder.key(page.key)), page.key):
            if entry.end > manifest.log_start:
                yield entry
    yield from manifest.entries


def unlisted(bucket: Bucket, folder: PartitionFolder, manifest: Manifest) -> list[str]:
    """Objects that the manifest lists neither as segments nor as garbage."""
    named = {*manifest.named(), *(entry.key for entry in listed(bucket, folder, manifest))}
    names = (key.removeprefix(folder.prefix) for key in bucket.objects.keys if key.startswith(folder.prefix))
    return [name for name in names if parse_object_name(name) is not None and name not in named]
