"""`barnabas tier`: inspect, verify and repair tiered topics in an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, Yes, confirm, with_client
from barnabas.cli.output import count, say, show_json, show_table, size
from barnabas.cli.tiering import status as tier_status
from barnabas.cli.tiering import verify as tier_verify
from barnabas.cli.tiering.stores import (
    RepairRefusedError,
    StoreOptions,
    StoreUrl,
    TopicInStore,
    TopicName,
    with_topic_in_store,
)

if TYPE_CHECKING:
    from barnabas.cli.tiering.plans import RepairPlan
    from barnabas.client import Client, PartitionTiers
    from barnabas.tiering.objects import Manifest, PartitionFolder
    from barnabas.tiering.stores import ObjectStore


# -- `barnabas tier repair` ----------------------------------------------------------------------------

REPAIR_COLUMNS = ("partition", "segments", "log_start", "tiered_end", "size", "set_aside", "damaged")
AFTERWARDS = "The leaders load the new manifests automatically within ten minutes."


def repair(
    topic: TopicName,
    store: StoreUrl,
    option: StoreOptions = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this partition.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Write the new manifests; without it nothing is changed.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild valid manifests too, or accept missing offsets.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Rebuild damaged or lost manifests of a topic.

    A manifest lists the segments of a partition in the object store. It is rebuilt from the segments. Without --yes the
    command only shows the new manifests. The damaged manifest is kept and no object is deleted; segments that do not
    fit are quarantined. Valid manifests are unchanged.

    Examples:

      barnabas tier repair clicks --store s3://history/production

      barnabas tier repair clicks --store file:///history --partition 3 --yes
    """
    tiers = with_client(bootstrap, lambda client: _tiers(client, topic))

    async def work(found: TopicInStore, store: ObjectStore) -> list[RepairPlan]:
        return await _make_plans(store, _only(found, partition), tiers, force)

    plans = with_topic_in_store(bootstrap, topic, store, option, work)
    if output is OutputFormat.TABLE:
        _show(plans)
    if yes:
        _refuse_holes(plans, force)
        with_topic_in_store(bootstrap, topic, store, option, lambda _, opened: _write(opened, plans))
    if output is OutputFormat.JSON:
        show_json({"topic": topic, "written": yes, "partitions": [repair_facts(plan) for plan in plans]})
    else:
        say(_repair_hint(len(plans), yes))


async def _tiers(client: Client, name: str) -> dict[int, PartitionTiers]:
    from barnabas.client import describe_tiers
    from barnabas.client.admin import setting_of_topics

    policy = (await setting_of_topics(client, [name], "cleanup.policy")).get(name)
    if "compact" in (policy or ""):
        raise RepairRefusedError(
            f"Topic {name} is compacted: segments of two compactions would be mixed. Its leaders have all records: "
            "if a manifest is damaged, remove that object and start the leader's broker again. It makes a new copy."
        )
    topic = (await client.topics([name]))[name]
    return {tiers.tp.partition: tiers for tiers in await describe_tiers(client, [topic])}


def _only(found: TopicInStore, partition: int | None) -> TopicInStore:
    if partition is None:
        return found
    if partition not in found.partitions:
        raise RepairRefusedError(
            f"Topic {found.topic} has no partition {partition}; it has {len(found.partitions)}, from 0 on."
        )
    return found._replace(partitions=(partition,))


async def _make_plans(
    store: ObjectStore, found: TopicInStore, tiers: dict[int, PartitionTiers], force: bool
) -> list[RepairPlan]:
    from barnabas.cli.tiering.plans import make_plan

    made = [await make_plan(store, folder, tiers.get(folder.partition), force) for folder in found.folders]
    plans = [plan for plan in made if plan is not None]
    if not plans:
        which = f"of partition {found.partitions[0]} " if len(found.partitions) == 1 else ""
        raise RepairRefusedError(
            f"There is nothing to repair: every manifest {which}of {found.topic} is sound. "
            "--force makes new ones all the same."
        )
    return plans


def _refuse_holes(plans: list[RepairPlan], force: bool) -> None:
    holes = [(plan.folder.partition, hole) for plan in plans for hole in plan.holes]
    if holes and not force:
        where = "\n".join(
            f"partition {index}: offsets {first} to {last - 1}" for index, (first, last) in holes
        )
        raise RepairRefusedError(
            f"Nothing was written: these offsets are on no disk, and in no segment that fits:\n{where}\n"
            "Bring the objects back if there is a copy. --force continues without them: they are lost then."
        )


async def _write(store: ObjectStore, plans: list[RepairPlan]) -> None:
    from barnabas.cli.tiering.plans import carry_out

    for plan in plans:
        await carry_out(store, plan)


def repair_facts(plan: RepairPlan) -> dict[str, Any]:
    manifest = plan.rebuilt.manifest
    return {
        "partition": plan.folder.partition,
        "problem": plan.problem,
        "segments": len(manifest.entries),
        "log_start": manifest.log_start,
        "tiered_end": manifest.tiered_end,
        "bytes": manifest.size,
        "set_aside": [each.key for each in manifest.quarantine],
        "damaged": [
            {"key": each.key, "problem": each.problem} for each in plan.rebuilt.findings if each.problem
        ],
        "holes": [{"first": first, "next": following} for first, following in plan.holes],
    }


def _show(plans: list[RepairPlan]) -> None:
    facts = [repair_facts(plan) for plan in plans]
    for row in facts:
        print(f"partition {row['partition']}: {row['problem']}")
        for each in row["damaged"]:
            print(f"  left out: {each['problem']}")
        for hole in row["holes"]:
            print(f"  offsets {hole['first']} to {hole['next'] - 1} will be missing")
    print()
    rows = [
        {
            **row,
            "size": size(row["bytes"]),
            "set_aside": len(row["set_aside"]),
            "damaged": len(row["damaged"]),
        }
        for row in facts
    ]
    show_table(rows, REPAIR_COLUMNS)


def _repair_hint(number: int, written: bool) -> str:
    if written:
        return f"{count(number, 'manifest')} written. {AFTERWARDS}"
    return f"Nothing was changed. --yes writes {'this manifest' if number == 1 else 'these manifests'}."


# -- `barnabas tier quarantine` ------------------------------------------------------------------------

COLUMNS = ("partition", "first", "next", "size", "since", "key")


def quarantine(
    topic: TopicName,
    store: StoreUrl,
    option: StoreOptions = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the objects (done by the leaders).")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List the quarantined segments of a topic: kept in the object store, but no longer part of the topic.

    After an unclean election the records of the new leader count; segments with other records are set aside. So are
    segments that a repair could not fit in. Nothing reads them, and nothing but this command, with --delete, has them
    deleted: by the leaders, after barnabas.remote.delete.delay.ms, unless a snapshot keeps them.

    Examples:

      barnabas tier quarantine clicks --store s3://history/production

      barnabas tier quarantine clicks --store file:///history --delete --yes
    """
    found = with_topic_in_store(bootstrap, topic, store, option, _read)
    rows = [facts for folder, manifest in found for facts in facts_of(folder, manifest)]
    if delete and rows:
        confirm(f"Delete {count(len(rows), 'segment')} of {topic} for good?", yes)
        with_topic_in_store(bootstrap, topic, store, option, _drop)
    if output is OutputFormat.JSON:
        show_json({"topic": topic, "deleted": bool(delete and rows), "segments": rows})
        return
    if rows:
        show_table([{**row, "size": size(row["bytes"])} for row in rows], COLUMNS)
    say(_quarantine_hint(topic, len(rows), delete))


async def _read(found: TopicInStore, store: ObjectStore) -> list[tuple[PartitionFolder, Manifest]]:
    from barnabas.tiering.objects import read_manifest

    seen = [(folder, await read_manifest(store, folder)) for folder in found.folders]
    return [(folder, each.manifest) for folder, each in seen if each is not None]


async def _drop(found: TopicInStore, store: ObjectStore) -> None:
    import time
    from functools import partial

    from barnabas.tiering.objects import change_manifest, check_live, drop_quarantine

    async def dropped(manifest: Manifest) -> Manifest:
        return drop_quarantine(manifest, time.time_ns() // 1_000_000)

    for folder, manifest in await _read(found, store):
        if manifest.quarantine:
            await change_manifest(store, folder, dropped, partial(check_live, folder=folder))


def facts_of(folder: PartitionFolder, manifest: Manifest) -> list[dict[str, Any]]:
    from datetime import UTC, datetime

    return [
        {
            "partition": folder.partition,
            "first": each.base,
            "next": each.end,
            "bytes": each.size,
            "since": datetime.fromtimestamp(each.since_ms / 1000, UTC).isoformat(timespec="seconds"),
            "key": each.key,
        }
        for each in manifest.quarantine
    ]


def _quarantine_hint(topic: str, number: int, delete: bool) -> str:
    if not number:
        return f"Nothing of {topic} is in quarantine."
    if delete:
        return f"{count(number, 'segment')} given up. The leaders delete them within ten minutes."
    return f"{count(number, 'segment')} in quarantine. --delete deletes them."


app = typer.Typer(help="Inspect, verify and repair tiered topics in an object store.", no_args_is_help=True)

app.command("status")(tier_status.status)
app.command("verify")(tier_verify.verify)
app.command("repair")(repair)
app.command("quarantine")(quarantine)
