"""`barnabas tier status`: local and remote records of tiered topics, and the copy lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    complete_topic,
    with_client,
)
from barnabas.cli.output import count, say, show_json, show_table, size
from barnabas.cli.tiering.stores import NotTieredError

if TYPE_CHECKING:
    from barnabas.client import Client, PartitionTiers, TopicMetadata
    from barnabas.protocol.messages.tiers import BrokerTiers, PartitionTier

    Brokers = Mapping[int, BrokerTiers | str] | None
    """None: not authorized."""

COLUMNS = (
    "topic",
    "partition",
    "leader",
    "log_start",
    "local_start",
    "tiered_end",
    "end",
    "on_disk",
    "remote",
    "not_copied",
    "copying",
)
BROKER_COLUMNS = ("broker", "cache", "cached_reads", "downloads", "reading", "copying", "store")
SHOWN_ERRORS = 20  # JSON has all of them
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
    """Show which records of tiered topics are local and remote, and the copy lag.

    Offsets from LOG START up to TIERED END are in the object store, those from LOCAL START up to END on the leader's
    disk. NOT COPIED counts records, with bytes where known. COPYING is the state of the leader's copier, with the
    progress of the segment. A second table lists brokers, caches and errors. A compacted topic with
    barnabas.remote.compacted=copy is completely on disk.

    Requires Describe on the topics, and for the brokers Describe on the cluster. Apache Kafka from 3.9 on returns
    only the offsets.

    Examples:

      barnabas tier status

      barnabas tier status clicks -o json | jq '.totals.pending_records'
    """
    found, brokers = with_client(bootstrap, lambda client: _describe(client, topic))
    facts = {
        "partitions": [facts_of(each) for each in found],
        "totals": totals_of(found),
        "brokers": brokers_of(brokers),
    }
    if output is OutputFormat.JSON:
        show_json(facts)
    elif found:
        _show(facts)
    else:
        say(NOTHING)


async def _describe(client: Client, name: str | None) -> tuple[list[PartitionTiers], Brokers]:
    from barnabas.client import ask_brokers_if_allowed, describe_tiers, find_tiered

    topics = await _topics(client, name)
    tiered = await find_tiered(client, topics)
    if name is not None and not tiered:
        raise NotTieredError(
            f"Topic {name} is not tiered: all its records are on the brokers' disks.\n"
            f"`barnabas configs set topic {name} remote.storage.enable=true` tiers it, if the brokers have a store."
        )
    found = await describe_tiers(client, [topics[each] for each in tiered])
    return found, await ask_brokers_if_allowed(client) if found else {}


async def _topics(client: Client, name: str | None) -> dict[str, TopicMetadata]:
    return await client.all_topics() if name is None else await client.topics([name])


def facts_of(tiers: PartitionTiers) -> dict[str, Any]:
    return {
        "topic": tiers.tp.topic,
        "partition": tiers.tp.partition,
        "leader": tiers.leader if tiers.leader >= 0 else None,
        "log_start": tiers.log_start,
        "local_start": tiers.local_start,
        "tiered_end": tiers.tiered_end,
        "end": tiers.end,
        "local_bytes": tiers.local_bytes,
        "pending_records": tiers.pending_records,
        "pending_bytes": tiers.pending_bytes,
        "copying": _copying(tiers.copying),
    }


def _copying(row: PartitionTier | None) -> dict[str, Any] | None:
    """None if the broker does not report it; unknown numbers are null."""
    if row is None:
        return None
    numbers = {name: getattr(row, name) for name in _NUMBERS}
    return {
        "state": row.state or None,
        "whole": row.whole,
        "error": row.error or None,
        **{name: number if number >= 0 else None for name, number in numbers.items()},
    }


_NUMBERS = (
    "error_since_ms", "remote_bytes", "remote_segments", "garbage_bytes", "pending_bytes", "pending_segments",
    "upload_bytes", "uploaded_bytes",
)  # fmt: skip


def brokers_of(brokers: Brokers) -> list[dict[str, Any]] | None:
    """None if not authorized."""
    if brokers is None:
        return None
    return [
        {"broker": broker, **({"error": row} if isinstance(row, str) else _broker_facts(row))}
        for broker, row in brokers.items()
    ]


def _broker_facts(row: BrokerTiers) -> dict[str, Any]:
    facts = {field.name: getattr(row, field.name) for field in row.FIELDS if field.name != "enabled"}
    since = row.error_since_ms if row.error else None
    return {**facts, "error": row.error or None, "error_since_ms": since}


def totals_of(found: list[PartitionTiers]) -> dict[str, Any]:
    """Totals; the bytes to copy are unknown if those of any partition are."""
    pending = [each.pending_bytes for each in found]
    return {
        "topics": len({each.tp.topic for each in found}),
        "partitions": len(found),
        "offline": sum(each.leader < 0 for each in found),
        "local_bytes": _sum(each.local_bytes for each in found),
        "remote_bytes": _sum(each.copying.remote_bytes for each in found if each.copying is not None),
        "lag_bytes": _sum(each.copying.pending_bytes for each in found if each.copying is not None),
        "failing": sum(each.copying is not None and bool(each.copying.error) for each in found),
        "pending_records": _sum(each.pending_records for each in found),
        "pending_bytes": None if None in pending else _sum(pending),
    }


def _sum(numbers: Iterable[int | None]) -> int:
    return sum(number for number in numbers if number is not None and number > 0)


def _show(facts: dict[str, Any]) -> None:
    rows = [
        {
            **row,
            "on_disk": _size(row["local_bytes"]),
            "not_copied": _pending(row),
            "remote": _size((row["copying"] or {}).get("remote_bytes")),
            "copying": _state(row["copying"]),
        }
        for row in facts["partitions"]
    ]
    show_table(rows, COLUMNS)
    totals = facts["totals"]
    what = f"{count(totals['partitions'], 'partition')} of {count(totals['topics'], 'topic')}"
    print(
        f"\n{what}: {size(totals['local_bytes'])} on disk, {size(totals['remote_bytes'])} remote, "
        f"{_pending(totals)} not copied{_progress(totals)}"
    )
    if totals["offline"]:
        print(f"offline: {count(totals['offline'], 'partition')}, not counted")
    _show_brokers(facts["brokers"])
    _show_errors(facts)


def _progress(totals: dict[str, Any]) -> str:
    """Share of sealed segments that is copied."""
    copied, left = totals["remote_bytes"], totals["lag_bytes"]
    return f" (of sealed segments {copied / (copied + left):.0%} are copied)" if left else ""


def _show_brokers(brokers: list[dict[str, Any]] | None) -> None:
    if brokers is None:
        print("\nBrokers and their caches need Describe on the cluster.")
    elif row := [each for each in brokers if "cache_limit_bytes" in each]:
        print()
        show_table([_broker_row(each) for each in row], BROKER_COLUMNS)


def _broker_row(row: dict[str, Any]) -> dict[str, Any]:
    reads = row["cache_hits"] + row["cache_misses"]
    return {
        "broker": row["broker"],
        "cache": f"{size(row['cache_disk_bytes'] + row['cache_memory_bytes'])} of {size(row['cache_limit_bytes'])}",
        "cached_reads": f"{row['cache_hits'] / reads:.0%} of {reads:,}" if reads else "-",
        "downloads": f"{row['downloads']}, {row['downloads_waiting']} waiting",
        "reading": f"{size(row['read_bytes_per_second'])}/s",
        "copying": f"{size(row['copy_bytes_per_second'])}/s",
        "store": "down" if row["store_down"] else "answers",
    }


def _show_errors(facts: dict[str, Any]) -> None:
    failing = [(f"broker {each['broker']}", each) for each in facts["brokers"] or () if each["error"]]
    failing += [
        (f"{row['topic']}-{row['partition']}", row["copying"])
        for row in facts["partitions"]
        if row["copying"] and row["copying"]["error"]
    ]
    if failing:
        print("\nerrors:")
    for name, status in failing[:SHOWN_ERRORS]:
        since = status.get("error_since_ms")
        print(f"  {name}{f', since {_moment(since)}' if since else ''}: {status['error']}")
    if len(failing) > SHOWN_ERRORS:
        print(f"  ... and {len(failing) - SHOWN_ERRORS:,} more: -o json shows all")


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds // 1000, UTC).isoformat()


def _state(copying: dict[str, Any] | None) -> str | None:
    if copying is None or not copying["state"]:
        return None
    if copying["upload_bytes"]:
        return f"{copying['state']}, {copying['uploaded_bytes'] / copying['upload_bytes']:.0%}"
    return str(copying["state"])


def _pending(row: dict[str, Any]) -> str | None:
    records, size_of_them = row["pending_records"], row["pending_bytes"]
    if records is None:
        return None
    return count(records, "record") + (f", {size(size_of_them)}" if size_of_them else "")


def _size(number: int | None) -> str | None:
    return None if number is None else size(number)
