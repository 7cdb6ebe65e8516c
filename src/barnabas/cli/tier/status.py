"""`barnabas tier status`: what is on the disks, what is in the object store, and what is still to be copied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat
from barnabas.cli.output import count, say, show_json, show_table, size
from barnabas.cli.session import complete_topic, with_client
from barnabas.cli.tier.failures import NotTieredError

if TYPE_CHECKING:
    from barnabas.client.cluster import Client
    from barnabas.client.metadata import Topic
    from barnabas.client.tiers import PartitionTiers

COLUMNS = (
    "topic",
    "partition",
    "leader",
    "log_start",
    "local_start",
    "tiered_end",
    "end",
    "on_disk",
    "not_copied",
)
NOTHING = "No topic is tiered. `barnabas topics create NAME --set remote.storage.enable=true` makes one."


def status(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]", help="Only this one [all tiered topics].", autocompletion=complete_topic
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show where the records of tiered topics lie, and how far copying is behind.

    Offsets from LOG START up to TIERED END are in the object store, those from LOCAL START up to END on the leader's
    disk. NOT COPIED counts records, and says bytes where they are known. Works with Apache Kafka from 3.9 on, too.

    Examples:

      barnabas tier status

      barnabas tier status clicks -o json | jq '.totals.pending_records'
    """
    found = with_client(bootstrap, lambda client: _describe(client, topic))
    facts = {"partitions": [facts_of(each) for each in found], "totals": totals_of(found)}
    if output is OutputFormat.JSON:
        show_json(facts)
    elif found:
        _show(facts)
    else:
        say(NOTHING)


async def _describe(client: Client, name: str | None) -> list[PartitionTiers]:
    from barnabas.client.tiers import describe_tiers, tiered_topics

    topics = await _topics(client, name)
    tiered = await tiered_topics(client, sorted(topics))
    if name is not None and not tiered:
        raise NotTieredError(
            f"Topic {name} is not tiered: all its records are on the brokers' disks.\n"
            f"`barnabas configs set topic {name} remote.storage.enable=true` tiers it, if the brokers have a store."
        )
    return await describe_tiers(client, [topics[each] for each in tiered])


async def _topics(client: Client, name: str | None) -> dict[str, Topic]:
    return await client.all_topics() if name is None else await client.topics([name])


def facts_of(tiers: PartitionTiers) -> dict[str, Any]:
    return {
        "topic": tiers.place.topic,
        "partition": tiers.place.partition,
        "leader": tiers.leader if tiers.leader >= 0 else None,
        "log_start": tiers.log_start,
        "local_start": tiers.local_start,
        "tiered_end": tiers.tiered_end,
        "end": tiers.end,
        "local_bytes": tiers.local_bytes,
        "pending_records": tiers.pending_records,
        "pending_bytes": tiers.pending_bytes,
    }


def totals_of(found: list[PartitionTiers]) -> dict[str, Any]:
    """Sums of what is known; bytes still to be copied are unknown if those of one partition are."""
    pending = [each.pending_bytes for each in found]
    return {
        "topics": len({each.place.topic for each in found}),
        "partitions": len(found),
        "offline": sum(each.leader < 0 for each in found),
        "local_bytes": _sum(each.local_bytes for each in found),
        "pending_records": _sum(each.pending_records for each in found),
        "pending_bytes": None if None in pending else _sum(pending),
    }


def _sum(numbers: Iterable[int | None]) -> int:
    return sum(number for number in numbers if number is not None)


def _show(facts: dict[str, Any]) -> None:
    rows = [
        {**row, "on_disk": _size(row["local_bytes"]), "not_copied": _pending(row)}
        for row in facts["partitions"]
    ]
    show_table(rows, COLUMNS)
    totals = facts["totals"]
    what = f"{count(totals['partitions'], 'partition')} of {count(totals['topics'], 'topic')}"
    print(f"\n{what}: {size(totals['local_bytes'])} on disk, {_pending(totals)} not copied")
    if totals["offline"]:
        print(f"offline: {count(totals['offline'], 'partition')}, not counted")


def _pending(row: dict[str, Any]) -> str | None:
    records, size_of_them = row["pending_records"], row["pending_bytes"]
    if records is None:
        return None
    return count(records, "record") + (f", {size(size_of_them)}" if size_of_them else "")


def _size(number: int | None) -> str | None:
    return None if number is None else size(number)
