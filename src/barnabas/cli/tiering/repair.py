"""`barnabas tier repair`: manifests that are damaged or lost, rebuilt from the footers of the segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, with_client
from barnabas.cli.output import count, say, show_json, show_table, size
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
    from barnabas.client import Client
    from barnabas.client.tiers import PartitionTiers
    from barnabas.tiering.stores import ObjectStore

REPAIR_COLUMNS = ("partition", "segments", "log_start", "tiered_end", "size", "set_aside", "damaged")
AFTERWARDS = "The leaders load the new manifests automatically within ten minutes."


def repair(
    topic: TopicName,
    store: StoreUrl,
    option: StoreOptions = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Only this one.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Write the new manifests; without it nothing is changed.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even if a manifest is sound, or if offsets will be missing.")
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
    from barnabas.client.admin import setting_of_topics
    from barnabas.client.tiers import describe_tiers

    policy = (await setting_of_topics(client, [name], "cleanup.policy")).get(name)
    if "compact" in (policy or ""):
        raise RepairRefusedError(
            f"Topic {name} is compacted: footers of two compactions would be mixed. Its leaders have all records: "
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
