"""`barnabas ingest files`."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.ingest.listening import CompressionOption, Topic
from barnabas.cli.ingest.running import AgentName, Metrics, run_agent
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Headers, Output, OutputFormat, parse_headers
from barnabas.cli.records.produce import Compression


def files(
    patterns: Annotated[
        list[str], typer.Argument(metavar="PATTERN...", help="Files: '/var/log/*.log', '/srv/**/app.log'.")
    ],
    topic: Topic,
    agent: AgentName = None,
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
    compression: CompressionOption = Compression.NONE,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop when all that is there has been read.")
    ] = False,
    metrics: Metrics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Read the lines of files, through rotation and kill -9, each exactly once.

    Examples:

      barnabas ingest files '/var/log/*.log' --topic logs

      barnabas ingest files '/srv/app/*.log*' -t app --multiline-start '^\\d{4}-' --exit-at-end
    """
    import socket

    from barnabas.common.durations import seconds_of
    from barnabas.services.ingest.files.source import FilesSettings, FilesSource
    from barnabas.common.regex import PatternError, compile_pattern

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
