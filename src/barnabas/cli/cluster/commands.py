"""`barnabas cluster`: the brokers and what they hold."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.cluster import moves as cluster_moves
from barnabas.cli.cluster import restoring as cluster_restoring
from barnabas.cli.cluster import status as cluster_status
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    Settings,
    parse_settings,
    with_client,
)
from barnabas.cli.output import show_done, show_json, show_table, size

if TYPE_CHECKING:
    from barnabas.client import Client

app = typer.Typer(
    help="Start a cluster, look at it as a whole, and move what it holds.", no_args_is_help=True
)

app.command("status")(cluster_status.status)
app.command("move")(cluster_moves.move)
app.command("drain")(cluster_moves.drain)
app.command("unregister")(cluster_moves.unregister)
app.command("rebalance")(cluster_moves.rebalance)
app.command("restore")(cluster_restoring.restore)


@app.command()
def describe(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = OutputFormat.TABLE) -> None:
    """Show the brokers, the controller, versions and how much is stored.

    Example:

      barnabas cluster describe -b 127.0.0.1:9092
    """
    described = with_client(bootstrap, _describe)
    if output is OutputFormat.JSON:
        show_json(described)
        return
    features = " ".join(f"{name}={level}" for name, level in described["features"].items()) or "none"
    print(f"cluster {described['cluster_id']}  topics: {described['topics']}  features: {features}")
    rows = [
        {
            **broker,
            "role": "controller" if broker["id"] == described["controller_id"] else "",
            "stored": size(sum(folder["bytes"] for folder in broker["log_dirs"])),
            "free": size(sum(folder["usable_bytes"] or 0 for folder in broker["log_dirs"])),
        }
        for broker in described["brokers"]
    ]
    show_table(rows, ("id", "address", "rack", "role", "partitions", "stored", "free"))


@app.command()
def start(
    data: Annotated[
        Path, typer.Option("--data", "-d", metavar="DIR", help="The folder for everything; made if missing.")
    ],
    brokers: Annotated[int, typer.Option("--brokers", "-n", min=1, max=16, help="How many brokers.")] = 3,
    listen: Annotated[
        str,
        typer.Option("--listen", "-l", metavar="HOST:PORT", help="Of the first broker; the others follow."),
    ] = DEFAULT_BOOTSTRAP,
    settings: Settings = None,
) -> None:
    """Run a cluster on this machine: a ZooKeeper and several brokers, each a process of its own.

    For trying out: kill a broker and see what happens. Ctrl-C stops everything, in order. Each process logs to a file
    in DIR. The ZooKeeper is the one of `barnabas zookeeper start`.

    Examples:

      barnabas cluster start --brokers 3 --data ./cluster

      barnabas cluster start --brokers 5 --data ./cluster --listen 127.0.0.1:9092 --set min.insync.replicas=3
    """
    from barnabas.cli.cluster.local_cluster import BrokerChild, LocalCluster, StopSignal
    from barnabas.client import parse_address

    def tell(broker: BrokerChild) -> None:
        typer.echo(
            f"broker {broker.node_id} has ended with {broker.exit_code}; see {broker.output}", err=True
        )

    try:
        first = parse_address(listen)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--listen") from None
    with LocalCluster(brokers, data, first.host, first.port, parse_settings(settings)) as cluster:
        stop = StopSignal()
        for broker in cluster.brokers:
            typer.echo(f"broker {broker.node_id}: {broker.address} (pid {broker.pid}, log {broker.output})")
        typer.echo(f"ZooKeeper: {cluster.zookeeper.address} (pid {cluster.zookeeper.pid})")
        typer.echo(f"The cluster is ready on {cluster.bootstrap_servers}")
        sys.stdout.flush()
        stop.wait(lambda: cluster.report_exits(tell))
        typer.echo("stopping")


@app.command()
def adopt(
    data: Annotated[
        Path,
        typer.Option("--data", "-d", metavar="DIR", help="The folder of the node, which must be stopped."),
    ],
    zookeeper: Annotated[
        str,
        typer.Option(
            "--zookeeper", "-z", metavar="HOST:PORT,.../PATH", help="The ZooKeeper of the new cluster."
        ),
    ],
    settings: Settings = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Grow a node that ran alone into a cluster: its metadata moves into ZooKeeper, its records stay where they are.

    Afterwards start it, and other brokers, with `barnabas serve --zookeeper`. The former metadata are kept in DIR under
    the name __barnabas_metadata.adopted.

    Example:

      barnabas cluster adopt --data ./data --zookeeper 127.0.0.1:2181/barnabas
    """
    from barnabas.cli.cluster.adoption import adopt as move
    from barnabas.config.broker import BrokerConfig

    properties = {**parse_settings(settings), "log.dirs": str(data), "zookeeper.connect": zookeeper}
    moved = move(BrokerConfig.load(properties))
    if output is OutputFormat.JSON:
        show_json(moved)
        return
    print(f"cluster {moved['cluster_id']} with {moved['topics']} topics is now in ZooKeeper.")
    print(f"Start its brokers with: barnabas serve --zookeeper {zookeeper} --node-id N --data DIR")


@app.command()
def upgrade(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = OutputFormat.TABLE) -> None:
    """Let the cluster use what this version of Barnabas has brought, once all its brokers run it.

    A cluster that was upgraded broker by broker goes on as before until then, so that brokers can still be downgraded.
    From here on they cannot. The same as `kafka-features upgrade --feature barnabas.metadata.version=LEVEL`.

    Example:

      barnabas cluster upgrade -b 127.0.0.1:9092
    """
    from barnabas.client import admin
    from barnabas.cluster.features import METADATA_VERSION, NEWEST_LEVEL

    with_client(bootstrap, lambda client: admin.finalize_feature(client, METADATA_VERSION, NEWEST_LEVEL))
    text = f"All brokers use {METADATA_VERSION}={NEWEST_LEVEL} from now on."
    show_done(output, text, {"feature": METADATA_VERSION, "level": NEWEST_LEVEL})


@app.command()
def secure(
    zookeeper: Annotated[
        str | None,
        typer.Option("--zookeeper", "-z", metavar="HOST:PORT,.../PATH", help="The ZooKeeper of the cluster."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="The brokers' server.properties.")
    ] = None,
    settings: Settings = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Protect what a cluster has in ZooKeeper: from now on only its brokers read and change it.

    It needs the credentials that the brokers have for ZooKeeper, and zookeeper.set.acl=true. Let all brokers have these
    settings before: a broker without them is shut out. It may run while brokers do.

    Example:

      barnabas cluster secure --config server.properties
    """
    from barnabas.cli.cluster.protecting import protect
    from barnabas.config.broker import BrokerConfig
    from barnabas.config.properties import parse_properties

    given = {} if config is None else parse_properties(config.read_text(encoding="utf-8"))
    given |= parse_settings(settings)
    if zookeeper is not None:
        given["zookeeper.connect"] = zookeeper
    if not given.get("zookeeper.connect"):
        raise typer.BadParameter("say which ZooKeeper: --zookeeper, or zookeeper.connect in the file")
    count = protect(BrokerConfig.load(given))
    show_done(output, f"{count} nodes in ZooKeeper belong to the brokers alone now.", {"nodes": count})


async def _describe(client: Client) -> dict[str, Any]:
    from barnabas.client import admin

    topics = await client.all_topics()
    answer = await admin.describe_cluster(client)
    connection = await client.any_connection()
    return {
        "cluster_id": answer.cluster_id,
        "controller_id": answer.controller_id,
        "topics": len(topics),
        "features": dict(sorted(connection.features.items())),
        "brokers": [await _broker(client, broker_id) for broker_id in sorted(client.metadata.brokers)],
    }


async def _broker(client: Client, broker_id: int) -> dict[str, Any]:
    from barnabas.client import admin

    broker = client.metadata.brokers[broker_id]
    folders = await admin.describe_log_dirs(client, broker_id)
    return {
        "id": broker_id,
        "address": str(broker.address),
        "rack": broker.rack,
        "partitions": sum(len(topic.partitions) for folder in folders for topic in folder.topics),
        "log_dirs": [
            {
                "path": folder.log_dir,
                "online": folder.error_code == 0,
                "bytes": sum(part.partition_size for topic in folder.topics for part in topic.partitions),
                "total_bytes": folder.total_bytes if folder.total_bytes >= 0 else None,
                "usable_bytes": folder.usable_bytes if folder.usable_bytes >= 0 else None,
            }
            for folder in folders
        ],
    }
