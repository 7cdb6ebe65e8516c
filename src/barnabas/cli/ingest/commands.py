"""`barnabas ingest`: agents that read what a machine writes into topics, each record exactly once."""

from __future__ import annotations

import typer

from barnabas.cli.ingest.files import files
from barnabas.cli.ingest.host import host
from barnabas.cli.ingest.run import run
from barnabas.cli.ingest.status import status

app = typer.Typer(
    help="Read what a machine writes into topics: log files and what it counts, each record exactly once.",
    no_args_is_help=True,
)
for command in (files, host, run, status):
    app.command()(command)
