"""`barnabas ingest run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.ingest.running import Metrics, run_agent
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat
from barnabas.cli.output import show_done


def run(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The agent: its sources and their topics, as YAML.", exists=True),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the file is right; nothing is read or written.")
    ] = False,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The agent's name, instead of the one in the file.")
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop when all that is there has been read.")
    ] = False,
    metrics: Metrics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Run an agent with the sources that a file names.

    Examples:

      barnabas ingest run agent.yml

      barnabas ingest run agent.yml --check
    """
    import socket

    from barnabas.services.ingest.agent_file.reading import describe, read_agent

    found = read_agent(file, socket.gethostname())
    name = agent or found.name
    if check:
        sources = describe(found)
        for source in found.sources:
            source.close()
        names = ", ".join(str(each["source"]) for each in sources)
        show_done(output, f"{file} is right: {name} reads {names}.", {"agent": name, "sources": sources})
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
