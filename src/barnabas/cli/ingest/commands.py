"""`barnabas ingest`: agents that write logs and metrics of a machine to topics, exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.ingest.http import http
from barnabas.cli.ingest.running import AgentName, Metrics, run_agent
from barnabas.cli.ingest.syslog import CompressionOption, Topic, syslog
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Headers,
    Output,
    OutputFormat,
    parse_headers,
    with_client,
)
from barnabas.cli.output import show_done, show_rows, size
from barnabas.cli.records.produce import Compression

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.client.status import ProcessStatus, StatusPart


# -- `barnabas ingest status` --------------------------------------------------------------------------

COLUMNS = (
    "agent", "source", "state", "host", "files", "records", "read", "lag", "last_commit", "dead_letters", "errors",
    "problem",
)  # fmt: skip


def status(
    forget: Annotated[
        str | None,
        typer.Option(
            "--forget", metavar="AGENT", help="Remove the status of an agent that will not run again."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the status of agents by source: records read, backlog and errors.

    An agent that stopped reporting is `lost`. Needs Read and Describe on __barnabas_status, and --forget Write.

    Examples:

      barnabas ingest status

      barnabas ingest status -o json
    """

    async def work(client: Client) -> list[ProcessStatus]:
        from barnabas.client.status import forget_status, read_statuses

        if forget is not None:
            await forget_status(client, "agent", forget)
        return await read_statuses(client, "agent")

    found = with_client(bootstrap, work)
    rows = [_row(agent, part, output) for agent in found for part in agent.parts]
    show_rows(output, rows, COLUMNS, "No agent has reported yet. `barnabas ingest files` starts one.")


def _row(agent: ProcessStatus, part: StatusPart, output: OutputFormat) -> dict[str, Any]:
    counts = part.counts
    people = output is OutputFormat.TABLE
    row = {
        "agent": agent.name,
        "source": part.name,
        "state": agent.state if agent.state != "running" else part.state,
        "host": agent.host,
        "files": counts.get("files"),
        "records": counts.get("records", 0),
        "read": size(int(counts.get("bytes", 0))) if people else counts.get("bytes", 0),
        "lag": part.lag if part.lag is None or not people else size(part.lag),
        "last_commit": _moment(int(counts.get("last_commit", 0)), people=people),
        "dead_letters": counts.get("dead_letters", 0),
        "errors": counts.get("errors", 0),
        "problem": part.reason or agent.error,
    }
    if people:
        return row
    return {
        **row,
        "process": agent.process,
        "started": agent.started,
        "updated": agent.updated,
        "counts": counts,
    }


def _moment(milliseconds: int, *, people: bool) -> Any:
    """A local time for display, or milliseconds; None means never."""
    if not milliseconds:
        return None
    if not people:
        return milliseconds
    from datetime import datetime

    return datetime.fromtimestamp(milliseconds / 1000).strftime("%Y-%m-%d %H:%M:%S")


# -- `barnabas ingest statsd` --------------------------------------------------------------------------


def statsd(
    topic: Topic,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            "-l",
            metavar="[udp|tcp://]HOST:PORT",
            help="UDP and TCP, or one of them; may be repeated. [127.0.0.1:8125]",
        ),
    ] = None,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Interval between reports.")] = "10s",
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The key of every record. [the name of the metric]")
    ] = None,
    header: Headers = None,
    agent: AgentName = None,
    metrics: Metrics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Receive counters and timers over the statsd protocol, and write a report every few seconds.

    Examples:

      barnabas ingest statsd --topic metrics --every 10s

      echo 'orders:1|c|#shop:berlin' > /dev/udp/127.0.0.1/8125
    """
    import socket

    from barnabas.common.durations import seconds_of
    from barnabas.services.ingest import DEFAULT_STATSD_LISTEN, StatsdSettings, StatsdSource
    from barnabas.services.ingest.sockets import endpoints_of

    host = socket.gethostname()
    try:
        settings = StatsdSettings(
            topic=topic,
            host=host,
            listen=listen or DEFAULT_STATSD_LISTEN,
            every=seconds_of(every),
            key=key,
            headers=tuple(parse_headers(header)),
        )
        source = StatsdSource("statsd", settings)
        where = ", ".join(map(str, endpoints_of(settings)))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    run_agent(
        bootstrap,
        agent or f"{host}-{topic}",
        [source],
        reads=f"statsd on {where} into {topic}, every {every}",
        metrics=metrics,
        output=output,
    )


# -- `barnabas ingest run` -----------------------------------------------------------------------------


def run(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The agent: its sources and their topics, as YAML.", exists=True),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Only validate the file; nothing is read or written.")
    ] = False,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The agent's name, instead of the one in the file.")
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop at the end of the existing data.")
    ] = False,
    metrics: Metrics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Run an agent with the sources of a file.

    Examples:

      barnabas ingest run agent.yml

      barnabas ingest run agent.yml --check
    """
    import socket

    from barnabas.services.ingest import describe_agent, read_agent

    found = read_agent(file, socket.gethostname())
    name = agent or found.name
    if check:
        sources = describe_agent(found)
        for source in found.sources:
            source.close()
        names = ", ".join(str(each["source"]) for each in sources)
        show_done(output, f"{file} is valid: {name} reads {names}.", {"agent": name, "sources": sources})
        return
    run_agent(
        bootstrap,
        name,
        found.sources,
        reads=", ".join(f"{source.name} into {source.topics[0]}" for source in found.sources),
        metrics=metrics or found.metrics,
        output=output,
        exit_at_end=exit_at_end,
    )


# -- `barnabas ingest host` ----------------------------------------------------------------------------


def host(
    topic: Topic,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Interval between samples.")] = "5s",
    service: Annotated[
        str | None, typer.Option("--service", help="The service name of the samples. [HOST]")
    ] = None,
    prometheus: Annotated[
        list[str] | None,
        typer.Option(
            "--prometheus",
            metavar="[SERVICE=]URL",
            help="A Prometheus page, whose counters become rates. May be given several times.",
        ),
    ] = None,
    tps: Annotated[
        str | None,
        typer.Option(
            "--tps", metavar="COUNTER", help="The counter whose rate is reported as transactions per second."
        ),
    ] = None,
    agent: AgentName = None,
    header: Headers = None,
    metrics: Metrics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Measure this machine: CPU, disks, memory, network and connections, as the pipeline `operations` reads them.

    Examples:

      barnabas ingest host --topic host.metrics --every 5s

      barnabas ingest host -t shop.metrics --prometheus checkout=http://127.0.0.1:8000/metrics --tps orders_total
    """
    import socket

    from barnabas.common.durations import seconds_of
    from barnabas.services.ingest.host import HostSettings, HostSource, page_of

    name = socket.gethostname()
    try:
        settings = HostSettings(
            topic=topic,
            host=name,
            service=service or name,
            every=seconds_of(every),
            pages=tuple(page_of(each, service or name) for each in prometheus or ()),
            tps=tps,
            headers=tuple(parse_headers(header)),
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    run_agent(
        bootstrap,
        agent or f"{name}-{topic}",
        [HostSource("host", settings)],
        reads=f"this machine into {topic}, every {every}",
        metrics=metrics,
        output=output,
    )


# -- `barnabas ingest files` ---------------------------------------------------------------------------


def files(
    patterns: Annotated[
        list[str], typer.Argument(metavar="PATTERN...", help="Files: '/var/log/*.log', '/srv/**/app.log'.")
    ],
    topic: Topic,
    agent: AgentName = None,
    multiline_start: Annotated[
        str | None,
        typer.Option(
            "--multiline-start", metavar="RE2", help="A line that matches starts a new multi-line record."
        ),
    ] = None,
    multiline_timeout: Annotated[
        str,
        typer.Option(
            "--multiline-timeout", metavar="TIME", help="A record ends after this time without a new line."
        ),
    ] = "5s",
    max_line_bytes: Annotated[
        int, typer.Option("--max-line-bytes", min=1024, help="A longer line becomes a dead letter.")
    ] = 1024 * 1024,
    dead_letters: Annotated[
        str | None, typer.Option("--dead-letters", metavar="TOPIC", help="[TOPIC.dead-letters]")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The key of every record. [HOST:PATH]")
    ] = None,
    header: Headers = None,
    compression: CompressionOption = Compression.NONE,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop at the end of the existing data.")
    ] = False,
    metrics: Metrics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Read the lines of files exactly once, even across rotation and kill -9.

    Examples:

      barnabas ingest files '/var/log/*.log' --topic logs

      barnabas ingest files '/srv/app/*.log*' -t app --multiline-start '^\\d{4}-' --exit-at-end
    """
    import socket

    from barnabas.common.durations import seconds_of
    from barnabas.common.regex import PatternError, compile_pattern
    from barnabas.services.ingest.files import FilesSettings, FilesSource

    host = socket.gethostname()
    try:
        start = None if multiline_start is None else compile_pattern(multiline_start)
    except PatternError as error:
        raise typer.BadParameter(str(error), param_hint="--multiline-start") from None
    settings = FilesSettings(
        patterns=patterns,
        topic=topic,
        host=host,
        dead_letters=dead_letters or f"{topic}.dead-letters",
        key=key,
        headers=tuple(parse_headers(header)),
        multiline=start,
        multiline_timeout=seconds_of(multiline_timeout),
        max_line_bytes=max_line_bytes,
        compression=compression.value,
    )
    run_agent(
        bootstrap,
        agent or f"{host}-{topic}",
        [FilesSource("files", settings)],
        reads=f"{', '.join(patterns)} into {topic}",
        metrics=metrics,
        output=output,
        exit_at_end=exit_at_end,
    )


app = typer.Typer(
    help="Write log files, syslog, HTTP events and metrics to topics, exactly once.",
    no_args_is_help=True,
)
for command in (files, syslog, http, host, statsd, run, status):
    app.command()(command)
