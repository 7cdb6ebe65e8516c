"""Repair plans of `barnabas tier repair`: the new manifest of a partition, and writing it."""

from __future__ import annotations

import time
from typing import NamedTuple

from barnabas.cli.tiering.stores import RepairRefusedError
from barnabas.cli.tiering.verify import has_segments
from barnabas.client import PartitionTiers
from barnabas.tiering import Rebuilt, find_pins, manifest_object, rebuild, write_rebuilt
from barnabas.tiering.objects import (
    BadManifestError,
    ForeignManifestError,
    Manifest,
    ManifestState,
    PartitionFolder,
    decode,
    read_page,
)
from barnabas.tiering.restoring import read_incarnation
from barnabas.tiering.stores import MissingObjectError, ObjectStore, Versioned

Range = tuple[int, int]
"""Offset range: first, and last plus one."""


class RepairPlan(NamedTuple):
    folder: PartitionFolder
    problem: str
    instead_of: Versioned | None
    rebuilt: Rebuilt
    holes: tuple[Range, ...]
    made_ms: int


async def make_plan(
    store: ObjectStore, folder: PartitionFolder, tiers: PartitionTiers | None, force: bool
) -> RepairPlan | None:
    """None if there is nothing to repair. RepairRefusedError if the manifest must not be replaced."""
    found = await manifest_object(store, folder)
    problem = await _problem(store, folder, found, force)
    if problem is None:
        return None
    now_ms = time.time_ns() // 1_000_000
    incarnation = await read_incarnation(store, folder.cluster_id)
    rebuilt = await rebuild(store, folder, incarnation, now_ms, await find_pins(store, folder))
    return RepairPlan(folder, problem, found, rebuilt, holes(rebuilt.manifest, tiers), now_ms)


async def carry_out(store: ObjectStore, plan: RepairPlan) -> None:
    """Write the new manifest. Raises StaleVersionError if the manifest changed since it was read."""
    await write_rebuilt(store, plan.folder, plan.rebuilt.manifest, plan.made_ms, plan.instead_of)


async def _problem(
    store: ObjectStore, folder: PartitionFolder, found: Versioned | None, force: bool
) -> str | None:
    """The reason to replace the manifest, or None."""
    if found is None:
        return f"{folder.manifest} is missing" if await has_segments(store, folder) else None
    try:
        manifest = decode(found.data, folder)
        for page in manifest.pages:
            await read_page(store, folder, page)
    except ForeignManifestError as error:
        raise RepairRefusedError(f"{error.message}\nIt is not damaged, and is left alone.") from None
    except (BadManifestError, MissingObjectError) as error:
        return error.message
    if not force:
        return None
    _check_may_be_replaced(manifest, folder)
    return f"{folder.manifest} is sound, and rebuilt because of --force"


def _check_may_be_replaced(manifest: Manifest, folder: PartitionFolder) -> None:
    if manifest.state is ManifestState.DELETED:
        raise RepairRefusedError(f"{folder.manifest}: the topic is deleted; there is nothing to repair.")
    if manifest.sources:
        raise RepairRefusedError(
            f"{folder.manifest} is sound, and lists objects of other topics, which a new one could not."
        )


def holes(manifest: Manifest, tiers: PartitionTiers | None) -> tuple[Range, ...]:
    """Offset ranges that are only remote and missing in the manifest."""
    if tiers is None or tiers.log_start is None or tiers.local_start is None:
        return ()
    start, local_start = tiers.log_start, tiers.local_start
    if manifest.entries:
        before, behind = (
            (start, min(manifest.log_start, local_start)),
            (max(manifest.tiered_end, start), local_start),
        )
    else:
        before, behind = (start, local_start), (local_start, local_start)
    return tuple(each for each in (before, behind) if each[0] < each[1])
