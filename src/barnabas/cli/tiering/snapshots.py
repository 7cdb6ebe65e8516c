"""`barnabas snapshot`: snapshots of tiered topics, and their restore as new topics of the running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    Settings,
    Yes,
    complete_topic,
    confirm,
    parse_settings,
    with_client,
)
from barnabas.cli.output import ProgressBar, count, show_done, show_rows, size
from barnabas.cli.tiering.stores import (
    NotTieredError,
    StoreOptions,
    StoreUrl,
    TopicInStore,
    check_holds,
    find_topic,
    using_store,
    with_store,
)

if TYPE_CHECKING:
    from barnabas.cli.tiering.cloning import Clone
    from barnabas.client import Client
    from barnabas.tiering import TieredSnapshot
    from barnabas.tiering.stores import ObjectStore


# -- `barnabas snapshot restore` -----------------------------------------------------------------------

BROKER_DEFAULT = -1


def restore(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The snapshot's name.")],
    store: StoreUrl,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TOPIC", help="The new topic, if the snapshot has a single one."),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename", metavar="OLD=NEW", help="The new topic for one of the snapshot; may be repeated."
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", "-t", metavar="TOPIC", help="Topic of the snapshot; may be repeated [all]."),
    ] = None,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            help="Replication factor of the new topics; -1 is the brokers' default.",
        ),
    ] = BROKER_DEFAULT,
    settings: Settings = None,
    option: StoreOptions = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create new topics with the records and offsets of a snapshot. Nothing is copied.

    The new topics have unlimited retention (retention.ms=-1) unless --set changes it, and accept writes. They keep the
    objects that they read: snapshot and source may be deleted. Needs CREATE on the topics, DESCRIBE_CONFIGS on
    the cluster, and the rights to get, put and list objects. If it is interrupted, run it again.

    Examples:

      barnabas snapshot restore friday --to clicks-of-friday --store s3://history/production

      barnabas snapshot restore friday --topics clicks --rename clicks=old-clicks --store file:///history
    """
    if (to is None) == (not rename):
        raise typer.BadParameter("name the new topics: --to TOPIC, or --rename OLD=NEW")
    names = parse_settings(rename)
    own = parse_settings(settings)

    async def work(client: Client) -> list[Clone]:
        from barnabas.cli.tiering.cloning import carry_out, check_clone, plan_clones

        async def with_both(opened: Any) -> list[Clone]:
            clones = await plan_clones(client, opened, store, name, names, topics, to)
            for clone in clones:
                await check_clone(client, clone, own, replication_factor)
            total, done = sum(clone.source.partitions for clone in clones), 0
            with ProgressBar(f"restoring {name}", total, unit="partitions") as progress:
                for clone in clones:
                    done = await carry_out(client, opened, clone, own, replication_factor, progress, done)
            return clones

        return await using_store(store, option, with_both)

    clones = with_client(bootstrap, work)
    facts = {"snapshot": name, "topics": [restore_facts(clone) for clone in clones]}
    partitions, total = sum(clone.source.partitions for clone in clones), sum(c.source.size for c in clones)
    made = ", ".join(clone.name for clone in clones)
    show_done(output, f"Restored {count(partitions, 'partition')} with {size(total)} as {made}.", facts)


def restore_facts(clone: Clone) -> dict[str, Any]:
    return {
        "topic": clone.name,
        "source": clone.source.name,
        "partitions": clone.source.partitions,
        "bytes": clone.source.size,
        "ends": {str(index): end for index, end in sorted(clone.source.ends.items())},
    }


app = typer.Typer(help="Snapshots of tiered topics in the object store.", no_args_is_help=True)

app.command("restore")(restore)

COLUMNS = ("name", "created", "state", "topics", "partitions", "size")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The snapshot's name.")]


@app.command()
def create(
    name: Name,
    store: StoreUrl,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topics",
            "-t",
            metavar="TOPIC",
            help="Topic to include; may be repeated [all tiered].",
            autocompletion=complete_topic,
        ),
    ] = None,
    option: StoreOptions = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create a snapshot of the current objects. Nothing is copied, and retention does not delete them. Records that are
    not copied to the store yet are not included. The objects cost money until the snapshot is deleted.

    Examples:

      barnabas snapshot create before-the-upgrade --store s3://history/production

      barnabas snapshot create friday --topics clicks --topics orders --store file:///history
    """
    found = with_client(bootstrap, lambda client: _find(client, topics))
    made = with_store(store, option, lambda opened: _create(opened, name, found, store))
    facts = facts_of(made)
    kept = f"{count(facts['partitions'], 'partition')} with {size(facts['bytes'])}"
    show_done(output, f"Snapshot {name} keeps {kept}.", facts)


@app.command("list")
def list_them(
    store: StoreUrl,
    option: StoreOptions = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the snapshots of the cluster.

    An incomplete one was interrupted: delete it and create it again.

    Example:

      barnabas snapshot list --store s3://history/production
    """
    cluster_id = with_client(bootstrap, _cluster_id)
    found = with_store(store, option, lambda opened: _list(opened, cluster_id))
    rows = [facts_of(snapshot) for snapshot in found]
    if output is OutputFormat.TABLE:
        rows = [{**row, "size": size(row["bytes"])} for row in rows]
    show_rows(output, rows, COLUMNS, empty="No snapshots.")


@app.command()
def delete(
    name: Name,
    store: StoreUrl,
    option: StoreOptions = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete a snapshot, and the objects that only it keeps.

    Example:

      barnabas snapshot delete friday --store file:///history --yes
    """
    cluster_id = with_client(bootstrap, _cluster_id)
    confirm(f"Delete the snapshot {name}, with the objects that only it keeps?", yes)
    with_store(store, option, lambda opened: _delete(opened, cluster_id, name))
    show_done(output, f"Deleted the snapshot {name}.", {"deleted": name})


async def _find(client: Client, names: list[str] | None) -> list[TopicInStore]:
    from barnabas.client import tiered_topics

    wanted = list(names or await tiered_topics(client, sorted(await client.all_topics())))
    if not wanted:
        raise NotTieredError("No topic is tiered: a snapshot would be empty.")
    return [await find_topic(client, name) for name in dict.fromkeys(wanted)]


async def _cluster_id(client: Client) -> str:
    await client.refresh([])
    return client.metadata.cluster_id or ""


async def _create(store: ObjectStore, name: str, found: list[TopicInStore], url: str) -> TieredSnapshot:
    import time

    from barnabas.tiering import SnapshotPartition, create_snapshot

    for topic in found:
        await check_holds(store, topic, url)
    folders = [folder for topic in found for folder in topic.folders]
    done = 0
    with ProgressBar(f"snapshot {name}", len(folders), unit="partitions") as progress:

        def pinned(_: SnapshotPartition) -> None:
            nonlocal done
            done += 1
            progress.reached(done)

        now_ms = time.time_ns() // 1_000_000
        return await create_snapshot(store, found[0].cluster_id, name, folders, now_ms, pinned)


async def _list(store: ObjectStore, cluster_id: str) -> list[TieredSnapshot]:
    from barnabas.tiering import list_snapshots

    return [snapshot async for snapshot in list_snapshots(store, cluster_id)]


async def _delete(store: ObjectStore, cluster_id: str, name: str) -> None:
    from barnabas.tiering import check_name, delete_snapshot

    check_name(name)
    await delete_snapshot(store, cluster_id, name)


def facts_of(snapshot: TieredSnapshot) -> dict[str, Any]:
    from datetime import UTC, datetime

    from barnabas.tiering.objects import parse_partition_prefix

    folders = [parse_partition_prefix(each.prefix) for each in snapshot.partitions]
    return {
        "name": snapshot.name,
        "created": datetime.fromtimestamp(snapshot.created_ms // 1000, UTC).isoformat(),
        "created_ms": snapshot.created_ms,
        "state": snapshot.state.value,
        "topics": sorted({folder.topic for folder in folders if folder is not None}),
        "partitions": len(snapshot.partitions),
        "bytes": sum(each.size for each in snapshot.partitions),
    }
