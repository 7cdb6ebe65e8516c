"""`barnabas cluster`: the brokers and what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat
from barnabas.cli.output import show_json, show_table, size
from barnabas.cli.session import with_client

if TYPE_CHECKING:
    from barnabas.client.cluster import Client

app = typer.Typer(help="Look at the cluster as a whole.", no_args_is_help=True)


@app.callback()
def cluster() -> None:
    """A callback keeps `describe` a command of its own although it is the only one."""


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
