"""`barnabas cluster status`: replicas of each broker, and partitions that are offline, under-replicated or moving."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, with_client
from barnabas.cli.output import count, show_json, show_table, size

if TYPE_CHECKING:
    from barnabas.client import PartitionMetadata
    from barnabas.client.placement import ClusterLayout, Reassignment
    from barnabas.common.types import TopicPartition

SHOWN = 20  # partitions in trouble that a table names; JSON has all of them


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
    whole = layout.partition_sizes.get(tp, 0)
    copied = layout.copied(tp)
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "replicas": list(moving.target),
        "adding": list(moving.adding),
        "removing": list(moving.removing),
        "bytes": whole,
        "copied_bytes": copied,
        "copied": f"{copied / whole:.0%}" if whole else "-",
    }


def _show_partitions(title: str, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    print(f"\n{title}: {count(len(rows), 'partition') if rows else 'none'}")
    if rows:
        show_table(rows[:SHOWN], columns)
    if len(rows) > SHOWN:
        print(f"... and {len(rows) - SHOWN:,} more: -o json shows all")


def _stored(number: int | None) -> str | None:
    return None if number is None else size(number)
