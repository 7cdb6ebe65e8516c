"""`barnabas mirror`: mirror topics of one or more clusters to another one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.mirror import control
from barnabas.cli.options import DEFAULT_BOOTSTRAP
from barnabas.cli.output import say

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from barnabas.client.security import ClientSecurity
    from barnabas.services.mirror import LinkRunner, MirrorSettings, SourceAddress


# -- The options of `barnabas mirror run` --------------------------------------------------------------


class Reaction(StrEnum):
    STOP = "stop"
    FOLLOW = "follow"


Sources = Annotated[
    list[str],
    typer.Option("--from", metavar="[ALIAS=]HOST:PORT", help="A cluster to mirror; may be repeated."),
]
Target = Annotated[
    str,
    typer.Option(
        "--to",
        "--bootstrap-server",
        "-b",
        envvar="BARNABAS_BOOTSTRAP",
        metavar="HOST:PORT",
        help="The target cluster.",
    ),
]
Topics = Annotated[str, typer.Option("--topics", metavar="RE2", help="Only topics whose full name matches.")]
Groups = Annotated[str, typer.Option("--groups", metavar="RE2", help="Only groups whose full name matches.")]
Rename = Annotated[
    str, typer.Option("--rename", help="Pattern of names in the target, such as '{alias}.{topic}'.")
]
Merge = Annotated[
    bool, typer.Option("--merge", help="Mirror several sources to the same topics, with new offsets.")
]
KeepDeleted = Annotated[
    bool, typer.Option("--keep-deleted", help="Keep what the source deletes; the target's retention decides.")
]
OnTruncation = Annotated[
    Reaction,
    typer.Option("--on-truncation", help="If the source has lost records: stop, or truncate the target too."),
]
OnGap = Annotated[
    Reaction,
    typer.Option(
        "--on-gap", help="If the source deleted records before they were mirrored: stop, or skip them."
    ),
]
NoAcls = Annotated[bool, typer.Option("--no-acls", help="Do not change the ACLs of the target.")]
ReplicationFactor = Annotated[
    int, typer.Option("--replication-factor", help="Replication factor of new topics. [the target's default]")
]
Every = Annotated[
    str,
    typer.Option(
        "--every", metavar="TIME", help="Interval at which topics, settings, ACLs and groups are compared."
    ),
]
FromConfigs = Annotated[
    list[Path] | None,
    typer.Option(
        "--from-config",
        metavar="FILE",
        help="TLS and SASL settings of the sources: one file for all, or one each.",
    ),
]
Metrics = Annotated[
    str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve /metrics for Prometheus.")
]


app = typer.Typer(
    help="Mirror topics of other clusters: the same batches, offsets and groups.", no_args_is_help=True
)
control.add_to(app)


@app.command()
def run(
    sources: Sources,
    target: Target = DEFAULT_BOOTSTRAP,
    topics: Topics = ".*",
    groups: Groups = ".*",
    rename: Rename = "{topic}",
    merge: Merge = False,
    keep_deleted: KeepDeleted = False,
    on_truncation: OnTruncation = Reaction.STOP,
    on_gap: OnGap = Reaction.STOP,
    no_acls: NoAcls = False,
    replication_factor: ReplicationFactor = -1,
    every: Every = "5s",
    from_config: FromConfigs = None,
    metrics: Metrics = None,
) -> None:
    """Mirror topics until Ctrl-C or SIGTERM. It may be killed and restarted at any time.

    Examples:

      barnabas mirror run --from old:9092 --to new:9092

      barnabas mirror run --from eu=eu:9092 --from us=us:9092 --to hq:9092 --rename '{alias}.{topic}'

      barnabas mirror run --from eu=eu:9092 --from us=us:9092 --to hq:9092 --topics 'orders.*' --merge
    """
    import asyncio

    from barnabas.cli.options import command_security
    from barnabas.common.allocation import keep_freed_memory
    from barnabas.common.durations import seconds_of
    from barnabas.services.mirror import Following, MirrorSettings

    follow = Reaction.FOLLOW
    settings = MirrorSettings(
        topics=topics,
        groups=groups,
        rename=rename,
        merge=merge,
        keep_deleted=keep_deleted,
        acls=not no_acls,
        replication_factor=replication_factor,
        refresh=seconds_of(every),
        following=Following(truncation=on_truncation is follow, gaps=on_gap is follow),
    )
    parsed = _parse_sources(sources, from_config or [])
    keep_freed_memory()  # buffers of some MiB are allocated many times a second
    asyncio.run(_run(parsed, target, settings, command_security(), metrics))


def _parse_sources(sources: list[str], files: list[Path]) -> list[SourceAddress]:
    from barnabas.client.security import parse_security, read_properties
    from barnabas.services.mirror import PlanError, check_sources, parse_source

    if len(files) not in (0, 1, len(sources)):
        raise typer.BadParameter(
            f"{len(files)} files for {len(sources)} sources: give one, or one each",
            param_hint="--from-config",
        )
    securities = [parse_security(read_properties("--from-config", file), references=True) for file in files]
    if len(securities) <= 1:
        securities = [*securities, parse_security({})][:1] * len(sources)
    try:
        parsed = [parse_source(text, security) for text, security in zip(sources, securities, strict=True)]
        check_sources(parsed)
    except PlanError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None
    return parsed


async def _run(
    sources: list[SourceAddress],
    target: str,
    settings: MirrorSettings,
    security: ClientSecurity,
    metrics: str | None,
) -> None:
    import asyncio
    import signal

    from barnabas.common.regex import PatternError
    from barnabas.services.mirror import PlanError, open_link, unless_stopped

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        opened = (open_link(source, target, settings, security, say) for source in sources)
        links = await unless_stopped(asyncio.gather(*opened), stop)
    except (PlanError, PatternError) as error:
        raise typer.BadParameter(str(error)) from None
    for link in links or ():
        kind = "produced again" if link.produces else "identical"
        say(
            f"{link.name} is mirrored to {target}: topics {settings.topics}, {kind} records. Ctrl-C stops it."
        )
    if links:
        await _run_links(links, stop, metrics)


async def _run_links(links: list[LinkRunner], stop: asyncio.Event, metrics: str | None) -> None:
    from barnabas.services.mirror import run_links

    server = await _serve_metrics(links, metrics) if metrics else None
    try:
        await run_links(links, stop)
    finally:
        if server is not None:
            await server.stop()


async def _serve_metrics(links: list[LinkRunner], address: str) -> control.Stoppable:
    from barnabas.client import parse_addresses
    from barnabas.services.mirror import mirror_metrics
    from barnabas.web import MetricsServer

    try:
        where = parse_addresses(address)[0]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--metrics") from None
    server = MetricsServer(mirror_metrics(links), lambda: (True, {"links": [link.name for link in links]}))
    await server.start(where.host, where.port)
    say(f"Metrics are at http://{where.host}:{server.port}/metrics.")
    return server
