"""`barnabas ingest`: agents that read what a machine writes into topics, each record exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Headers, Output, OutputFormat, parse_headers
from barnabas.cli.output import count, say, show_json, size
from barnabas.cli.records.produce import Compression
from barnabas.cli.session import with_client

if TYPE_CHECKING:
    from barnabas.client.cluster import Client
    from barnabas.ingest.agent import Agent
    from barnabas.ingest.files.source import FilesSource

app = typer.Typer(
    help="Read what a machine writes into topics: log files, each line exactly once.", no_args_is_help=True
)

SHOW_SECONDS = 0.5


@app.callback()
def ingest() -> None:
    """Read what a machine writes into topics: log files, each line exactly once."""


@app.command()
def files(
    patterns: Annotated[
        list[str], typer.Argument(metavar="PATTERN...", help="Files: '/var/log/*.log', '/srv/**/app.log'.")
    ],
    topic: Annotated[str, typer.Option("--topic", "-t", help="Where to; created if it is missing.")],
    agent: Annotated[
        str | None,
        typer.Option("--agent", help="The agent's name: its positions are stored under it. [HOST-TOPIC]"),
    ] = None,
    multiline_start: Annotated[
        str | None,
        typer.Option("--multiline-start", metavar="RE2", help="A line with this begins a record of lines."),
    ] = None,
    multiline_timeout: Annotated[
        str, typer.Option("--multiline-timeout", metavar="TIME", help="After this silence a record ends.")
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
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="How batches are compressed.")
    ] = Compression.NONE,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop when all that is there has been read.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Read the lines of files, through rotation and kill -9, each exactly once.

    Examples:

      barnabas ingest files '/var/log/*.log' --topic logs

      barnabas ingest files '/srv/app/*.log*' -t app --multiline-start '^\\d{4}-' --exit-at-end
    """
    import socket

    from barnabas.durations import seconds_of
    from barnabas.ingest.files.source import FilesSettings, FilesSource
    from barnabas.patterns import PatternError, compile_pattern

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
    source = FilesSource("files", settings)
    name = agent or f"{host}-{topic}"

    async def work(client: Client) -> Agent:
        return await _run(client, name, source, exit_at_end=exit_at_end)

    done = with_client(bootstrap, work)
    counts = done.counts
    if output is OutputFormat.JSON:
        show_json({"agent": name, "records": counts.records, "bytes": counts.bytes})
    else:
        say(f"{count(counts.records, 'record')} ({size(counts.bytes)}) read into {topic} by {name}.")


async def _run(client: Client, name: str, source: FilesSource, *, exit_at_end: bool) -> Agent:
    import asyncio
    import signal

    from barnabas.ingest.agent import Agent

    agent, stop = Agent(client, name, [source]), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    say(f"{name} reads {', '.join(source.settings.patterns)} into {source.settings.topic}. Ctrl-C stops it.")
    showing = asyncio.create_task(_show(source))
    try:
        await agent.run(stop, exit_at_end=exit_at_end)
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
    return agent


async def _show(source: FilesSource) -> None:
    """How far a backfill is. With nothing to catch up on there is nothing to see."""
    import asyncio

    from barnabas.cli.progress import Progress

    while True:
        await asyncio.sleep(SHOW_SECONDS)
        read, there = source.behind()
        if there - read < 16 * 1024 * 1024:
            continue
        with Progress("catching up", there) as progress:
            while read < there:
                progress.reached(read)
                await asyncio.sleep(SHOW_SECONDS)
                read, there = source.behind()
