"""`barnabas tier verify`: every object of a topic against its checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat
from barnabas.cli.output import ProgressBar, count, show_json, show_table, size
from barnabas.cli.tiering.stores import StoreOptions, StoreUrl, TopicInStore, TopicName, with_topic_in_store

if TYPE_CHECKING:
    from barnabas.tiering import ObjectFinding
    from barnabas.tiering.objects import Manifest, PartitionFolder
    from barnabas.tiering.stores import ObjectStore

COLUMNS = ("partition", "log_start", "tiered_end", "objects", "size", "damaged")


class CheckedPartition(NamedTuple):
    """Result of one partition. Without a manifest, nothing is copied or a finding reports the error."""

    partition: int
    manifest: Manifest | None
    findings: tuple[ObjectFinding, ...]
    objects: int = 0
    bytes: int = 0


def verify(
    topic: TopicName,
    store: StoreUrl,
    option: StoreOptions = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Read every object of a topic from the object store, and check it against its checksums.

    All of the topic is downloaded, so it may take long and cost money. Nothing is changed. Each damaged or missing
    object is named, and the exit code is 1 if there is one.

    Examples:

      barnabas tier verify clicks --store s3://history/production --option region=eu-central-1

      barnabas tier verify clicks --store file:///history -o json | jq -r '.findings[].key'
    """
    checked = with_topic_in_store(bootstrap, topic, store, option, _verify)
    facts = facts_of(topic, checked)
    if output is OutputFormat.JSON:
        show_json(facts)
    else:
        _show(facts)
    if facts["findings"]:
        raise typer.Exit(1)


async def _verify(found: TopicInStore, store: ObjectStore) -> list[CheckedPartition]:
    parts = [await read_part(store, folder) for folder in found.folders]
    total = sum(part.manifest.size for part in parts if part.manifest)
    done = 0
    checked = []
    with ProgressBar(f"checking {found.topic}", total) as progress:
        for folder, part in zip(found.folders, parts, strict=True):
            checked.append(await _verify_part(store, folder, part, progress, done))
            done += checked[-1].bytes
    return checked


async def read_part(store: ObjectStore, folder: PartitionFolder) -> CheckedPartition:
    """Read the manifest; errors become findings."""
    from barnabas.tiering import ObjectFinding
    from barnabas.tiering.objects import BadManifestError, read_manifest

    try:
        seen = await read_manifest(store, folder)
    except BadManifestError as error:
        return CheckedPartition(folder.partition, None, (ObjectFinding(folder.manifest, 0, error.message),))
    if seen is None and await has_segments(store, folder):
        problem = (
            f"{folder.manifest} is missing, though there are segments: `barnabas tier repair {folder.topic}`"
        )
        return CheckedPartition(folder.partition, None, (ObjectFinding(folder.manifest, 0, problem),))
    return CheckedPartition(folder.partition, seen.manifest if seen else None, ())


async def has_segments(store: ObjectStore, folder: PartitionFolder) -> bool:
    from barnabas.tiering.objects import parse_segment_name

    async for info in store.list(folder.prefix):
        if parse_segment_name(info.key.removeprefix(folder.prefix)) is not None:
            return True
    return False


async def _verify_part(
    store: ObjectStore, folder: PartitionFolder, part: CheckedPartition, progress: ProgressBar, before: int
) -> CheckedPartition:
    from barnabas.tiering import verify as verify_objects

    if part.manifest is None:
        return part
    objects = done = 0
    bad = []
    async for finding in verify_objects(store, folder, part.manifest):
        objects += 1
        done += finding.size
        progress.reached(before + done)
        if finding.problem is not None:
            bad.append(finding)
    findings = await _still_listed(store, folder, bad)
    return CheckedPartition(folder.partition, part.manifest, findings, objects, done)


async def _still_listed(
    store: ObjectStore, folder: PartitionFolder, bad: list[ObjectFinding]
) -> tuple[ObjectFinding, ...]:
    """Drop findings about objects that expired during the check: they are not damage."""
    if not bad:
        return ()
    now = await read_part(store, folder)
    if now.manifest is None:
        return (*bad, *now.findings)
    return tuple(each for each in bad if _is_listed(now.manifest, folder, each.key))


def _is_listed(manifest: Manifest, folder: PartitionFolder, key: str) -> bool:
    from barnabas.tiering.objects import parse_object_name

    name = key.removeprefix(folder.prefix)
    parsed = parse_object_name(name)
    if parsed is None:  # a clone's object, which is another topic's
        return True
    removed = {each.key for each in manifest.garbage}
    return name not in removed and manifest.may_name(name, parsed.base)


def facts_of(topic: str, checked: list[CheckedPartition]) -> dict[str, Any]:
    return {
        "topic": topic,
        "objects": sum(each.objects for each in checked),
        "bytes": sum(each.bytes for each in checked),
        "partitions": [_partition(each) for each in checked],
        "findings": [
            {"partition": each.partition, "key": finding.key, "problem": finding.problem}
            for each in checked
            for finding in each.findings
        ],
    }


def _partition(checked: CheckedPartition) -> dict[str, Any]:
    manifest = checked.manifest
    return {
        "partition": checked.partition,
        "log_start": manifest.log_start if manifest else None,
        "tiered_end": manifest.tiered_end if manifest else None,
        "objects": checked.objects,
        "bytes": checked.bytes,
        "damaged": len(checked.findings),
    }


def _show(facts: dict[str, Any]) -> None:
    show_table([{**row, "size": size(row["bytes"])} for row in facts["partitions"]], COLUMNS)
    print()
    for finding in facts["findings"]:
        print(finding["problem"])
    what = f"{count(facts['objects'], 'object')} with {size(facts['bytes'])}"
    damaged = len(facts["findings"])
    print(f"{what}: {count(damaged, 'finding') if damaged else 'all sound'}")
