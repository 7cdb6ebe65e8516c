"""`barnabas snapshot restore`: what a snapshot keeps, as new topics of the running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    Settings,
    parse_settings,
    with_client,
)
from barnabas.cli.output import ProgressBar, count, show_done, size
from barnabas.cli.tiering.stores import StoreOptions, StoreUrl, using_store

if TYPE_CHECKING:
    from barnabas.cli.tiering.cloning import Clone
    from barnabas.client import Client

BROKER_DEFAULT = -1


def restore(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The snapshot's name.")],
    store: StoreUrl,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="The new topic, where the snapshot has one.")
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename", metavar="OLD=NEW", help="The new topic for one of the snapshot; may be repeated."
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", "-t", metavar="TOPIC", help="Of the snapshot; may be repeated [all]."),
    ] = None,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", help="Of the new topics; -1 is the brokers' default.")
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
        raise typer.BadParameter("say how the new topics are called: --to TOPIC, or --rename OLD=NEW")
    names = parse_settings(rename)
    own = parse_settings(settings)

    async def work(client: Client) -> list[Clone]:
        from barnabas.cli.tiering.cloning import carry_out, check_clone, plan_clones

        async def with_both(opened: Any) -> list[Clone]:
            clones = await plan_clones(client, opened, store, name, names, topics, to)
            for clone in clones:
                await check_clone(client, clone, own, replication_factor)
            whole, done = sum(clone.source.partitions for clone in clones), 0
            with ProgressBar(f"restoring {name}", whole, unit="partitions") as progress:
                for clone in clones:
                    done = await carry_out(client, opened, clone, own, replication_factor, progress, done)
            return clones

        return await using_store(store, option, with_both)

    clones = with_client(bootstrap, work)
    facts = {"snapshot": name, "topics": [restore_facts(clone) for clone in clones]}
    partitions, whole = sum(clone.source.partitions for clone in clones), sum(c.source.size for c in clones)
    made = ", ".join(clone.name for clone in clones)
    show_done(output, f"Restored {count(partitions, 'partition')} with {size(whole)} as {made}.", facts)


def restore_facts(clone: Clone) -> dict[str, Any]:
    return {
        "topic": clone.name,
        "source": clone.source.name,
        "partitions": clone.source.partitions,
        "bytes": clone.source.size,
        "ends": {str(index): end for index, end in sorted(clone.source.ends.items())},
    }
