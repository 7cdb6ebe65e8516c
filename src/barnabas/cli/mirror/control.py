"""`barnabas mirror status`, and the commands that control running mirrors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, Yes, confirm, with_client
from barnabas.cli.output import count, say, show_done, show_json, show_rows

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.client.mirrors import MirrorInfo
    from barnabas.client.status import ProcessStatus

Topics = Annotated[
    str | None,
    typer.Option("--topics", metavar="RE2", help="Only topics of the target whose full name matches."),
]
Link = Annotated[str | None, typer.Option("--link", metavar="ALIAS", help="Only topics of this source.")]

FromConfig = Annotated[
    Path | None, typer.Option("--from-config", metavar="FILE", help="TLS and SASL settings of --from.")
]

COLUMNS = ("topic", "link", "state", "partitions", "lag", "lag_ms", "reason")


class Stoppable(Protocol):
    async def stop(self) -> None: ...


def add_to(app: typer.Typer) -> None:
    for command in (status, pause, resume, promote, failover, reverse):
        app.command()(command)


def status(
    topics: Topics = None,
    link: Link = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the topics that are mirrored to a cluster, their lag and errors.

    Example:

      barnabas mirror status -b new:9092
    """
    mirrors, statuses = with_client(bootstrap, lambda client: _status(client, link, topics))
    rows = [_row(mirror, statuses.get(mirror.link)) for mirror in mirrors]
    if output is OutputFormat.JSON:
        import msgspec

        links = [msgspec.to_builtins(found) for name, found in statuses.items() if link in (None, name)]
        show_json({"links": links, "topics": rows})
        return
    show_rows(output, rows, COLUMNS, empty="Nothing is mirrored to this cluster.")
    for name, found in statuses.items():
        if link in (None, name):
            say(f"Mirror of {name}: {found.state}{': ' + found.error if found.error else ''}")
            for alarm in found.alarms:
                say(f"  {alarm}")


async def _status(
    client: Client, link: str | None, topics: str | None
) -> tuple[list[MirrorInfo], dict[str, ProcessStatus]]:
    from barnabas.client.mirrors import mirrors_of
    from barnabas.client.status import read_statuses

    mirrors = await mirrors_of(client, link, topics)
    return mirrors, {found.name: found for found in await read_statuses(client, "mirror")}


def _row(mirror: MirrorInfo, status: ProcessStatus | None) -> dict[str, Any]:
    part = next((part for part in status.parts if part.name == mirror.name), None) if status else None
    lost = status is None or status.state in ("lost", "stopped")
    return {
        "topic": mirror.name,
        "link": mirror.link,
        "source_topic": mirror.source_name,
        "source_cluster": mirror.source_cluster,
        "state": mirror.state,
        "identical": mirror.identical,
        "partitions": mirror.partitions,
        "lag": part.lag if part is not None and mirror.lag is None else mirror.lag,
        "lag_ms": part.counts.get("lag_ms") if part is not None and not lost else None,
        "reason": mirror.reason or (part.reason if part else ""),
        "aborted_transactions": mirror.aborted,
    }


def pause(
    topics: Topics = None,
    link: Link = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Stop mirroring topics for a while; they stay read-only.

    Example:

      barnabas mirror pause --topics 'orders.*'
    """
    _do("paused", bootstrap, link, topics, output, _pause)


def resume(
    topics: Topics = None,
    link: Link = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Resume paused topics, and failed topics after their cause was fixed.

    Example:

      barnabas mirror resume --topics orders
    """
    _do("resumed", bootstrap, link, topics, output, _resume)


def promote(
    topics: Topics = None,
    link: Link = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="HOST:PORT", help="The source, to check that no record is missing."),
    ] = None,
    from_config: FromConfig = None,
    within: Annotated[str, typer.Option("--within", metavar="TIME", help="Maximum wait for lag 0.")] = "60s",
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Turn mirrors into ordinary topics once their lag is 0. Stop the producers of the source first.

    Example:

      barnabas mirror promote --topics 'orders.*' -b new:9092
    """
    from barnabas.common.durations import seconds_of

    seconds = seconds_of(within)
    confirm("Promote: mirroring to these topics ends. Continue?", yes)

    async def work(client: Client, mirrors: list[MirrorInfo]) -> None:
        from barnabas.client.mirrors import promote as promote_mirrors

        if source is None:
            await promote_mirrors(client, mirrors, None, seconds)
            return
        async with _other(source, from_config) as source_client:
            await promote_mirrors(client, mirrors, source_client, seconds)

    _do("promoted", bootstrap, link, topics, output, work)


def failover(
    topics: Topics = None,
    link: Link = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Turn mirrors into ordinary topics immediately, because the source is lost.

    Example:

      barnabas mirror failover --link old --yes -b new:9092
    """
    confirm("Fail over: records that are not mirrored yet remain at the source only. Continue?", yes)
    _do("failed over", bootstrap, link, topics, output, _failover)


def reverse(
    new: Annotated[
        str, typer.Option("--from", metavar="HOST:PORT", help="The new primary, which was promoted.")
    ],
    from_config: FromConfig = None,
    topics: Topics = None,
    link: Annotated[
        str | None, typer.Option("--link", metavar="ALIAS", help="The link's name. [the host of --from]")
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Turn topics of the old primary into mirrors of the new one. Records after the promotion are truncated.

    Example:

      barnabas mirror reverse --from new:9092 -b old:9092
    """
    from barnabas.services.mirror import parse_source

    alias = link or parse_source(new).alias
    confirm("Reverse: records of the old primary that were never mirrored are truncated. Continue?", yes)

    async def work(old: Client) -> list[str]:
        from barnabas.client.mirrors import reverse as reverse_mirrors

        async with _other(new, from_config) as primary:
            return await reverse_mirrors(primary, old, alias, topics)

    names = with_client(bootstrap, work)
    text = f"{count(len(names), 'topic')} reversed. Now: barnabas mirror run --from {alias}={new} --to {bootstrap}"
    show_done(output, text, {"link": alias, "topics": names})


def _other(bootstrap: str, file: Path | None) -> Client:
    """A client of the cluster on the other side of a link."""
    from barnabas.client import Client
    from barnabas.client.security import parse_security, read_properties

    properties = {} if file is None else read_properties("--from-config", file)
    return Client(bootstrap, client_id="barnabas-cli", security=parse_security(properties, references=True))


async def _pause(client: Client, mirrors: list[MirrorInfo]) -> None:
    from barnabas.client.mirrors import pause as act

    await act(client, mirrors)


async def _resume(client: Client, mirrors: list[MirrorInfo]) -> None:
    from barnabas.client.mirrors import resume as act

    await act(client, mirrors)


async def _failover(client: Client, mirrors: list[MirrorInfo]) -> None:
    from barnabas.client.mirrors import failover as act

    await act(client, mirrors)


def _do(
    done: str, bootstrap: str, link: str | None, topics: str | None, output: OutputFormat, work: Any
) -> None:
    """Apply an operation to the selected mirrors and report them, with the transactions that a promotion aborted."""

    async def all_of_it(client: Client) -> list[MirrorInfo]:
        from barnabas.client.mirrors import mirrors_of

        found = [each for each in await mirrors_of(client, link, topics) if each.state != "STOPPED"]
        if found:
            await work(client, found)
        names = {each.name for each in found}
        return [each for each in await mirrors_of(client, link, topics) if each.name in names]

    mirrors = with_client(bootstrap, all_of_it)
    if not mirrors:
        raise typer.BadParameter("no mirror topic matches; `barnabas mirror status` lists them")
    for each in mirrors:
        for aborted in each.aborted:
            say(f"A transaction that was open in {each.name}-{aborted['partition']} was aborted: {aborted}")
    facts = [
        {"topic": each.name, "state": each.state, "aborted_transactions": each.aborted} for each in mirrors
    ]
    show_done(output, f"{count(len(mirrors), 'topic')} {done}.", {"topics": facts})
