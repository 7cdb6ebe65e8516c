"""The brokers: what they hold, their disks, their curves, and forgetting one that is gone."""

from __future__ import annotations

from collections import Counter

import msgspec

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.placement.layout import brokers_of_cluster
from barnabas.console.administration.confirming import confirmed
from barnabas.console.administration.rights import may_change_cluster
from barnabas.console.context import Context
from barnabas.console.errors import NotFoundError
from barnabas.console.needs import cluster
from barnabas.console.routes import Done, Entry, Routes
from barnabas.errors import KafkaError
from barnabas.protocol.messages.cluster import DescribeLogDirsResult
from barnabas.security.authorizer import CLUSTER_NAME, Operation, ResourceType

routes = Routes()

LARGEST = 20
"""Topics of a broker that its page names."""


class BrokersQuery(msgspec.Struct):
    pass


class BrokerQuery(msgspec.Struct):
    id: int


class UnregisterForm(msgspec.Struct):
    id: int
    confirm: str
    """The broker's id, typed out."""


class LogDir(msgspec.Struct):
    path: str
    online: bool
    replicas: int
    bytes: int
    total_bytes: int | None
    usable_bytes: int | None


class BrokerRow(msgspec.Struct):
    id: int
    address: str
    rack: str | None
    up: bool
    controller: bool
    leaders: int
    replicas: int
    missing: int
    """Replicas of it that are not in sync."""
    bytes: int | None
    usable_bytes: int | None
    error: str


class BrokersPage(msgspec.Struct):
    cluster_id: str
    brokers: list[BrokerRow]
    features: dict[str, int]


class TopicOnBroker(msgspec.Struct):
    topic: str
    replicas: int
    bytes: int


class BrokerPage(msgspec.Struct):
    broker: BrokerRow
    log_dirs: list[LogDir]
    largest: list[TopicOnBroker]
    may_see_configs: bool
    may_alter: bool


@routes.page(
    "/brokers",
    needs=cluster(Operation.DESCRIBE),
    template="cluster/brokers.html",
    entry=Entry("Brokers", "b", 50),
)
async def show_brokers(context: Context, query: BrokersQuery) -> BrokersPage:
    """All brokers, up or down: what they hold and lead, and what their disks have left."""
    client = context.client
    described = await brokers_of_cluster(client)
    held = await _held(client)
    rows = []
    for broker in described.brokers.values():
        folders, error = await _log_dirs(client, broker.id) if broker.id in described.up else ([], "")
        rows.append(
            BrokerRow(
                broker.id,
                str(broker.address),
                broker.rack,
                broker.id in described.up,
                broker.id == described.controller_id,
                held.leaders[broker.id],
                held.replicas[broker.id],
                held.missing[broker.id],
                sum(folder.bytes for folder in folders) if folders else None,
                _sum([folder.usable_bytes for folder in folders]),
                error,
            )
        )
    features = (await client.any_connection()).features
    return BrokersPage(described.cluster_id, rows, dict(sorted(features.items())))


@routes.page("/brokers/{id}", needs=cluster(Operation.DESCRIBE), template="cluster/broker.html")
async def show_broker(context: Context, query: BrokerQuery) -> BrokerPage:
    """One broker: curves, log dirs with sizes, the largest topics on it."""
    everything = await show_brokers(context, BrokersQuery())
    broker = next((each for each in everything.brokers if each.id == query.id), None)
    if broker is None:
        raise NotFoundError(f"There is no broker {query.id}")
    results = await admin.describe_log_dirs(context.client, query.id) if broker.up else []
    return BrokerPage(
        broker,
        [log_dir_of(result) for result in results],
        largest_topics(results),
        await context.may(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME),
        await may_change_cluster(context, Operation.ALTER),
    )


@routes.action("/brokers/{id}/unregister", needs=cluster(Operation.ALTER))
async def unregister_broker(context: Context, form: UnregisterForm) -> Done:
    """Forget a broker that is stopped and will not come back, with the replicas that it may still have."""
    confirmed(form.confirm, str(form.id))
    await admin.unregister_broker(context.client, form.id)
    return Done(f"Broker {form.id} is no longer part of the cluster.", "/brokers")


class _Held(msgspec.Struct):
    leaders: Counter[int]
    replicas: Counter[int]
    missing: Counter[int]


async def _held(client: Client) -> _Held:
    partitions = [
        each for topic in (await client.all_topics()).values() for each in topic.partitions.values()
    ]
    return _Held(
        Counter(each.leader for each in partitions),
        Counter(broker for each in partitions for broker in each.replicas),
        Counter(broker for each in partitions for broker in each.replicas if broker not in each.isr),
    )


async def _log_dirs(client: Client, broker: int) -> tuple[list[LogDir], str]:
    try:
        return [log_dir_of(result) for result in await admin.describe_log_dirs(client, broker)], ""
    except (ClientError, KafkaError) as error:
        return [], str(error)


def log_dir_of(result: DescribeLogDirsResult) -> LogDir:
    partitions = [part for topic in result.topics for part in topic.partitions]
    return LogDir(
        result.log_dir,
        result.error_code == 0,
        len(partitions),
        sum(part.partition_size for part in partitions),
        _known(result.total_bytes),
        _known(result.usable_bytes),
    )


def largest_topics(results: list[DescribeLogDirsResult]) -> list[TopicOnBroker]:
    sizes, replicas = Counter[str](), Counter[str]()
    for result in results:
        for topic in result.topics:
            sizes[topic.name] += sum(part.partition_size for part in topic.partitions)
            replicas[topic.name] += len(topic.partitions)
    return [TopicOnBroker(name, replicas[name], size) for name, size in sizes.most_common(LARGEST)]


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _sum(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
