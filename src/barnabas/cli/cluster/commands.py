"""`barnabas cluster`: brokers, metadata and the placement of replicas."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.cluster import moves as cluster_moves
from barnabas.cli.cluster import restoring as cluster_restoring
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    Settings,
    parse_settings,
    with_client,
)
from barnabas.cli.output import count, show_done, show_json, show_table, size

if TYPE_CHECKING:
    from barnabas.client import Client, PartitionMetadata
    from barnabas.client.placement import ClusterLayout, Reassignment
    from barnabas.common.types import TopicPartition


# -- `barnabas cluster status` -------------------------------------------------------------------------

SHOWN = 20  # maximum number of listed problem partitions; JSON has all of them


def status(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = OutputFormat.TABLE) -> None:
    """Show the replicas and leaders of each broker, and all partitions that are offline, under-replicated or moving.

    Under-replicated: a replica is missing or behind. Offline: without a leader, so clients cannot read or write.

    Examples:

      barnabas cluster status

      barnabas cluster status -o json | jq '.offline | length'
    """
    from barnabas.client.placement import describe_layout

    facts = facts_of(with_client(bootstrap, describe_layout))
    if output is OutputFormat.JSON:
        show_json(facts)
        return
    print(f"cluster {facts['cluster_id']}  {count(facts['partitions'], 'partition')}")
    rows = [{**broker, "stored": _stored(broker["bytes"])} for broker in facts["brokers"]]
    show_table(rows, ("id", "address", "rack", "state", "role", "leaders", "replicas", "stored"))
    columns = ("topic", "partition", "leader", "replicas", "isr")
    _show_partitions("offline", facts["offline"], columns)
    _show_partitions("under-replicated", facts["under_replicated"], columns)
    moving = ("topic", "partition", "replicas", "adding", "removing", "copied")
    _show_partitions("on the move", facts["reassignments"], moving)


def facts_of(layout: ClusterLayout) -> dict[str, Any]:
    partitions = layout.partitions.items()
    return {
        "cluster_id": layout.cluster_id,
        "controller_id": layout.controller_id,
        "partitions": len(layout.partitions),
        "brokers": _brokers(layout),
        "offline": [_partition(*item) for item in partitions if item[1].leader < 0],
        "under_replicated": [
            _partition(*item) for item in partitions if len(item[1].isr) < len(item[1].replicas)
        ],
        "reassignments": [_reassignment(layout, *item) for item in sorted(layout.moving.items())],
    }


def _brokers(layout: ClusterLayout) -> list[dict[str, Any]]:
    leaders = Counter(partition.leader for partition in layout.partitions.values())
    replicas = Counter(broker for partition in layout.partitions.values() for broker in partition.replicas)
    known = {**layout.fenced, **layout.brokers}
    return [
        {
            "id": broker.id,
            "address": str(broker.address),
            "rack": broker.rack,
            "state": "up" if broker.id in layout.brokers else "down",
            "role": "controller" if broker.id == layout.controller_id else "",
            "leaders": leaders[broker.id],
            "replicas": replicas[broker.id],
            "bytes": sum(layout.sizes[broker.id].values()) if broker.id in layout.sizes else None,
        }
        for _, broker in sorted(known.items())
    ]


def _partition(tp: TopicPartition, partition: PartitionMetadata) -> dict[str, Any]:
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "leader": partition.leader if partition.leader >= 0 else None,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
    }


def _reassignment(layout: ClusterLayout, tp: TopicPartition, moving: Reassignment) -> dict[str, Any]:
    total = layout.partition_sizes.get(tp, 0)
    copied = layout.copied(tp)
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "replicas": list(moving.target),
        "adding": list(moving.adding),
        "removing": list(moving.removing),
        "bytes": total,
        "copied_bytes": copied,
        "copied": f"{copied / total:.0%}" if total else "-",
    }


def _show_partitions(title: str, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    print(f"\n{title}: {count(len(rows), 'partition') if rows else 'none'}")
    if rows:
        show_table(rows[:SHOWN], columns)
    if len(rows) > SHOWN:
        print(f"... and {len(rows) - SHOWN:,} more: -o json shows all")


def _stored(number: int | None) -> str | None:
    return None if number is None else size(number)


app = typer.Typer(help="Start, inspect, rebalance and restore a cluster.", no_args_is_help=True)

app.command("status")(status)
app.command("move")(cluster_moves.move)
app.command("drain")(cluster_moves.drain)
app.command("unregister")(cluster_moves.unregister)
app.command("rebalance")(cluster_moves.rebalance)
app.command("restore")(cluster_restoring.restore)


@app.command()
def describe(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = OutputFormat.TABLE) -> None:
    """Show the brokers, the controller, feature levels and stored bytes.

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
        Path, typer.Option("--data", "-d", metavar="DIR", help="The folder for all data; created if missing.")
    ],
    brokers: Annotated[int, typer.Option("--brokers", "-n", min=1, max=16, help="Number of brokers.")] = 3,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            "-l",
            metavar="HOST:PORT",
            help="Address of the first broker; the others use the next ports.",
        ),
    ] = DEFAULT_BOOTSTRAP,
    settings: Settings = None,
) -> None:
    """Run a test cluster on this machine: ZooKeeper and several brokers, each in a separate process.

    Use it for experiments, for example to kill a broker. Ctrl-C stops all processes, brokers first. Each process logs
    to a file in DIR. ZooKeeper is that of `barnabas zookeeper start`.

    Examples:

      barnabas cluster start --brokers 3 --data ./cluster

      barnabas cluster start --brokers 5 --data ./cluster --listen 127.0.0.1:9092 --set min.insync.replicas=3
    """
    from barnabas.cli.cluster.local_cluster import BrokerChild, LocalCluster, StopSignal
    from barnabas.client import parse_address

    def report(broker: BrokerChild) -> None:
        typer.echo(
            f"broker {broker.node_id} exited with code {broker.exit_code}; see {broker.output}\n"
            f"start it again with: {broker.restart_command}",
            err=True,
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
        stop.wait(lambda: cluster.report_exits(report))
        typer.echo("stopping")


@app.command()
def adopt(
    data: Annotated[
        Path,
        typer.Option(
            "--data", "-d", metavar="DIR", help="The data folder of the node, which must be stopped."
        ),
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
    """Turn a single node into a cluster: move its metadata to ZooKeeper. Its records stay in place.

    Then start this broker and others with `barnabas serve --zookeeper`. The former metadata is kept in DIR as
    __barnabas_metadata.adopted.

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
def upgrade(
    feature: Annotated[
        str | None,
        typer.Option(
            "--feature",
            metavar="NAME=LEVEL",
            help="Another feature of `cluster describe`, such as share.version=2 [the metadata version].",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Raise the metadata version or another feature level, once all brokers run this version of Barnabas.

    Until then an upgraded broker can be downgraded, and new features are off. Afterwards a downgrade is not possible.
    Equivalent to `kafka-features upgrade`.

    Examples:

      barnabas cluster upgrade -b 127.0.0.1:9092

      barnabas cluster upgrade --feature share.version=2
    """
    from barnabas.client import admin
    from barnabas.cluster.features import METADATA_VERSION, NEWEST_LEVEL

    name, level = (METADATA_VERSION, NEWEST_LEVEL) if feature is None else _feature_level(feature)
    with_client(bootstrap, lambda client: admin.finalize_feature(client, name, level))
    show_done(output, f"All brokers use {name}={level} from now on.", {"feature": name, "level": level})


def _feature_level(text: str) -> tuple[str, int]:
    name, _, level = text.partition("=")
    if not (name and level.isdecimal()):
        raise typer.BadParameter(
            f"{text!r} is not NAME=LEVEL, such as share.version=2", param_hint="--feature"
        )
    return name, int(level)


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
    """Set ACLs on the cluster's ZooKeeper nodes, so that only its brokers can read and change them.

    It needs the brokers' ZooKeeper credentials and zookeeper.set.acl=true. Configure all brokers first: a broker
    without these settings loses access. Brokers may be running.

    Example:

      barnabas cluster secure --config server.properties
    """
    from barnabas.cli.cluster.protecting import protect
    from barnabas.config.broker import BrokerConfig
    from barnabas.config.properties import parse_properties

    value = {} if config is None else parse_properties(config.read_text(encoding="utf-8"))
    value |= parse_settings(settings)
    if zookeeper is not None:
        value["zookeeper.connect"] = zookeeper
    if not value.get("zookeeper.connect"):
        raise typer.BadParameter("give --zookeeper, or zookeeper.connect in the file")
    count = protect(BrokerConfig.load(value))
    show_done(output, f"{count} ZooKeeper nodes are now restricted to the brokers.", {"nodes": count})


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
