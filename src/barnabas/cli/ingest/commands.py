"""`barnabas ingest`: agents that read what a machine writes into topics, each record exactly once."""

from __future__ import annotations

import typer

from barnabas.cli.ingest.files import files
from barnabas.cli.ingest.host import host
from barnabas.cli.ingest.http import http
from barnabas.cli.ingest.run import run
from barnabas.cli.ingest.statsd import statsd
from barnabas.cli.ingest.status import status
from barnabas.cli.ingest.syslog import syslog

app = typer.Typer(
    help="Read what machines write into topics: log files, syslog, HTTP and what they count, exactly once.",
    no_args_is_help=True,
)
for command in (files, syslog, http, host, statsd, run, status):
    app.command()(command)
