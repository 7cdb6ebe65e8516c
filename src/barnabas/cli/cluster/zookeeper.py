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


@app.command()
def install(
    repository: Annotated[
        str | None,
        typer.Option(
            "--repository",
            metavar="URL",
            envvar="BARNABAS_MAVEN_REPOSITORY",
            help="A Maven repository: Maven Central or a mirror. Without it the installed Maven downloads.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="DIR",
            help="Target folder [the user's cache] (BARNABAS_ZOOKEEPER_LIBS).",
        ),
    ] = None,
) -> None:
    """Download the jars of ZooKeeper (7 MB), checked against known hashes.

    Without the Internet, copy the folder from another machine and set BARNABAS_ZOOKEEPER_LIBS to it.

    Example:

      barnabas zookeeper install --repository https://maven.example.com/maven2
    """
    from barnabas.cluster.zookeeper import install_jars

    typer.echo(f"ZooKeeper's jars are in {install_jars(repository, to)}")


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

    It is Apache ZooKeeper itself, from the jars that `barnabas zookeeper install` downloads or PySpark contains, and it
    needs Java (the machine's, or the extra `zookeeper`). It prints `ZooKeeper is ready on HOST:PORT` when brokers can
    connect.

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
