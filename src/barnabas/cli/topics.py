"""`barnabas topics`: list, create, describe, alter, purge and delete topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    Settings,
    Yes,
    complete_topic,
    confirm,
    parse_settings,
    with_client,
)
from barnabas.cli.output import count, say, show_done, show_json, show_rows, show_table

if TYPE_CHECKING:
    from barnabas.client import Client, PartitionMetadata, TopicMetadata

app = typer.Typer(help="List, create, describe, grow, empty and delete topics.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=complete_topic)
]
Names = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC...", help="One or more topics.", autocompletion=complete_topic),
]
NewNames = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="One or more names.")]

PARTITION_COLUMNS = ("partition", "leader", "epoch", "replicas", "isr", "begin", "end")


@dataclass(frozen=True, slots=True)
class NewTopicOptions:
    """Options of `topics create`."""

    partitions: int | None
    replicas: int | None
    configs: dict[str, str]
    dry_run: bool
    if_not_exists: bool


@app.command("list")
def list_topics(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include internal topics.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show all topics.

    Examples:

      barnabas topics list

      barnabas topics list -o json | jq -r '.[].name'
    """
    topics = with_client(bootstrap, lambda client: client.all_topics())
    rows = [_summary(topic) for _, topic in sorted(topics.items()) if everything or not topic.internal]
    show_rows(
        output,
        rows,
        ("name", "partitions", "replication_factor", "id"),
        empty="No topics yet. `barnabas topics create NAME` creates one.",
    )


@app.command()
def create(
    names: NewNames,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="Number of partitions [the broker's num.partitions]."),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", min=1, help="Replication factor [the broker's default]."),
    ] = None,
    settings: Settings = None,
    if_not_exists: Annotated[bool, typer.Option(help="Accept existing topics.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate only.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create topics.

    Examples:

      barnabas topics create orders --partitions 6

      barnabas topics create latest-prices -X cleanup.policy=compact -X retention.ms=-1
    """
    wanted = NewTopicOptions(partitions, replicas, parse_settings(settings), dry_run, if_not_exists)

    async def work(client: Client) -> list[dict[str, Any]]:
        return [await _create(client, name, wanted) for name in names]

    results = with_client(bootstrap, work)
    if output is OutputFormat.JSON:
        show_json(results)
        return
    for result in results:
        verb = "exists already" if not result["created"] else "could be created" if dry_run else "created"
        say(f"Topic {result['name']} {verb}.")


@app.command()
def describe(
    names: Names, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = OutputFormat.TABLE
) -> None:
    """Show partitions, leaders, offsets and changed settings of topics.

    Examples:

      barnabas topics describe orders

      barnabas topics describe orders -o json | jq '.[0].partitions[].end'
    """
    described = with_client(bootstrap, lambda client: _describe(client, names))
    if output is OutputFormat.JSON:
        show_json(described)
        return
    for topic in described:
        settings = " ".join(f"{name}={value}" for name, value in topic["configs"].items()) or "all default"
        print(f"{topic['name']}  id {topic['id']}  settings: {settings}")
        show_table(topic["partitions"], PARTITION_COLUMNS)


@app.command()
def delete(
    names: Names,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete topics and all their records.

    Example:

      barnabas topics delete orders --yes
    """
    from barnabas.client import admin

    confirm(f"Delete {', '.join(names)} with all records?", yes)
    with_client(bootstrap, lambda client: admin.delete_topics(client, names))
    show_done(output, f"Deleted {', '.join(names)}.", {"deleted": names})


@app.command()
def alter(
    name: Name,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="New number of partitions.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Give a topic more partitions. Keys may then map to other partitions than before.

    Example:

      barnabas topics alter orders --partitions 12
    """
    from barnabas.client import admin

    with_client(bootstrap, lambda client: admin.create_partitions(client, name, partitions))
    text = f"Topic {name} has {count(partitions, 'partition')} now."
    show_done(output, text, {"name": name, "partitions": partitions})


@app.command()
def purge(
    name: Name,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Only this one.")] = None,
    before: Annotated[
        int | None,
        typer.Option("--before", metavar="OFFSET", min=0, help="First offset to keep [delete all]."),
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete the records of a topic and keep the topic. New records continue at the next offset.

    Examples:

      barnabas topics purge orders --yes

      barnabas topics purge orders --partition 0 --before 1500
    """
    where = name if partition is None else f"partition {partition} of {name}"
    what = "all records" if before is None else f"all records before offset {before}"
    confirm(f"Remove {what} of {where}?", yes)
    rows = with_client(bootstrap, lambda client: _purge(client, name, partition, before))
    show_rows(output, rows, ("partition", "begin"))


async def _create(client: Client, name: str, wanted: NewTopicOptions) -> dict[str, Any]:
    from barnabas.client import admin
    from barnabas.common.errors import ErrorCode, KafkaError
    from barnabas.common.types import uuid_to_text

    try:
        result = await admin.create_topic(
            client,
            name,
            partitions=wanted.partitions or admin.BROKER_DEFAULT,
            replication_factor=wanted.replicas or admin.BROKER_DEFAULT,
            configs=wanted.configs,
            validate_only=wanted.dry_run,
        )
    except KafkaError as error:
        if error.code == ErrorCode.TOPIC_ALREADY_EXISTS and wanted.if_not_exists:
            return {"name": name, "created": False}
        raise
    return {
        "name": name,
        "created": True,
        "id": uuid_to_text(result.topic_id),
        "partitions": result.num_partitions,
        "replication_factor": result.replication_factor,
    }


async def _describe(client: Client, names: list[str]) -> list[dict[str, Any]]:
    return [await _describe_topic(client, topic) for topic in (await client.topics(names)).values()]


async def _describe_topic(client: Client, topic: TopicMetadata) -> dict[str, Any]:
    from barnabas.client import admin
    from barnabas.client.offsets import beginning_offsets, end_offsets
    from barnabas.common.types import TopicPartition, uuid_to_text

    served = [
        TopicPartition(topic.name, found.index) for found in topic.partitions.values() if found.leader >= 0
    ]
    begin = {tp.partition: offset for tp, offset in (await beginning_offsets(client, served)).items()}
    end = {tp.partition: offset for tp, offset in (await end_offsets(client, served)).items()}
    configs = await admin.describe_configs(client, admin.TOPIC, topic.name)
    return {
        "name": topic.name,
        "id": uuid_to_text(topic.id),
        "internal": topic.internal,
        "configs": {
            config.name: config.value for config in configs if config.config_source == admin.SET_ON_TOPIC
        },
        "partitions": [
            {**_partition(found), "begin": begin.get(found.index), "end": end.get(found.index)}
            for found in topic.partitions.values()
        ],
    }


def _partition(found: PartitionMetadata) -> dict[str, Any]:
    return {
        "partition": found.index,
        "leader": found.leader,
        "epoch": found.leader_epoch,
        "replicas": list(found.replicas),
        "isr": list(found.isr),
        "offline": list(found.offline),
    }


async def _purge(
    client: Client, name: str, partition: int | None, before: int | None
) -> list[dict[str, Any]]:
    from barnabas.client import admin
    from barnabas.common.types import TopicPartition

    topic = (await client.topics([name]))[name]
    indexes = list(topic.partitions) if partition is None else [partition]
    offset = admin.ALL_RECORDS if before is None else before
    return [
        {"partition": index, "begin": await admin.delete_records(client, TopicPartition(name, index), offset)}
        for index in indexes
    ]


def _summary(topic: TopicMetadata) -> dict[str, Any]:
    from barnabas.common.types import uuid_to_text

    return {
        "name": topic.name,
        "id": uuid_to_text(topic.id),
        "partitions": len(topic.partitions),
        "replication_factor": max((len(found.replicas) for found in topic.partitions.values()), default=0),
        "internal": topic.internal,
    }
