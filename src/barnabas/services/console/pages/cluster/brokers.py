"""Brokers: leaders, replicas, log dirs and curves; unregistering a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

import msgspec

from barnabas.client import BrokerMetadata, admin
from barnabas.client.placement import ClusterBrokers, brokers_of_cluster
from barnabas.protocol.messages.cluster import DescribeLogDirsResult
from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.console.administration.rights import confirmed, may_change_cluster
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import ResourceNotFoundError
from barnabas.services.console.needs import cluster
from barnabas.services.console.pages.list_parts import Freshness, freshness
from barnabas.services.console.routes import ActionResult, NavigationEntry, Routes
from barnabas.services.console.sampling.snapshot import BrokerSample, ClusterSnapshot

routes = Routes()

MAX = 20
"""Topics listed on the page of a broker."""


class BrokersQuery(msgspec.Struct):
    pass


class BrokerQuery(msgspec.Struct):
    id: int


class UnregisterForm(msgspec.Struct):
    id: int
    confirm: str
    """Broker id, typed to confirm."""


class LogDirRow(msgspec.Struct):
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
    """Replicas of the broker that are out of sync."""
    bytes: int | None
    usable_bytes: int | None
    error: str


class BrokersPage(msgspec.Struct):
    cluster_id: str
    brokers: list[BrokerRow]
    features: dict[str, int]
    figures: Freshness
    """Age of leaders, replicas and sizes."""


class TopicOnBroker(msgspec.Struct):
    topic: str
    replicas: int
    bytes: int


class BrokerPage(msgspec.Struct):
    broker: BrokerRow
    log_dirs: list[LogDirRow]
    largest: list[TopicOnBroker]
    may_see_configs: bool
    may_alter: bool


@routes.page(
    "/brokers",
    needs=cluster(Operation.DESCRIBE),
    template="cluster/brokers.html",
    entry=NavigationEntry("Brokers", "b", 50, "brokers", "Cluster"),
)
async def show_brokers(context: RequestScope, query: BrokersQuery) -> BrokersPage:
    """All brokers, up or down: replicas, leaders, used and free disk space."""
    described = await brokers_of_cluster(context.client)
    snapshot = context.cluster.sampler.snapshot
    missing = missing_of(snapshot)
    rows = [
        row_of(broker, described, snapshot.brokers.get(broker.id), missing[broker.id])
        for broker in described.brokers.values()
    ]
    features = (await context.client.any_connection()).features
    return BrokersPage(described.cluster_id, rows, dict(sorted(features.items())), freshness(snapshot))


@routes.page("/brokers/{id}", needs=cluster(Operation.DESCRIBE), template="cluster/broker.html")
async def show_broker(context: RequestScope, query: BrokerQuery) -> BrokerPage:
    """One broker: curves, log dirs with sizes, its largest topics."""
    everything = await show_brokers(context, BrokersQuery())
    broker = next((each for each in everything.brokers if each.id == query.id), None)
    if broker is None:
        raise ResourceNotFoundError(f"Broker {query.id} does not exist")
    results = await admin.describe_log_dirs(context.client, query.id) if broker.up else []
    topics = {topic.name for result in results for topic in result.topics}
    seen = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topics)
    return BrokerPage(
        broker,
        [log_dir_of(result) for result in results],
        largest_topics(results, seen),
        await context.may(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME),
        await may_change_cluster(context, Operation.ALTER),
    )


@routes.action("/brokers/{id}/unregister", needs=cluster(Operation.ALTER))
async def unregister_broker(context: RequestScope, form: UnregisterForm) -> ActionResult:
    """Unregister a broker that is stopped and will not return, with any replicas it still has."""
    confirmed(form.confirm, str(form.id))
    await admin.unregister_broker(context.client, form.id)
    return ActionResult(f"Broker {form.id} is no longer part of the cluster.", "/brokers")


def row_of(
    broker: BrokerMetadata, described: ClusterBrokers, sample: BrokerSample | None, missing: int
) -> BrokerRow:
    """Row of a broker; `sample` is None if the broker has just joined or is down."""
    dirs = sample.log_dirs if sample is not None else ()
    return BrokerRow(
        broker.id,
        str(broker.address),
        broker.rack,
        broker.id in described.up,
        broker.id == described.controller_id,
        sample.leaders if sample is not None else 0,
        sample.replicas if sample is not None else 0,
        missing,
        sum(each.used for each in dirs) if dirs else None,
        _sum([_known(each.usable) for each in dirs]),
        sample.error if sample is not None else "",
    )


def missing_of(snapshot: ClusterSnapshot) -> Counter[int]:
    """Number of out-of-sync replicas by broker."""
    return Counter(
        broker
        for topic in snapshot.topics.values()
        if topic.under_replicated
        for partition in topic.layout
        for broker in partition.replicas
        if broker not in partition.isr
    )


def log_dir_of(result: DescribeLogDirsResult) -> LogDirRow:
    partitions = [part for topic in result.topics for part in topic.partitions]
    return LogDirRow(
        result.log_dir,
        result.error_code == 0,
        len(partitions),
        sum(part.partition_size for part in partitions),
        _known(result.total_bytes),
        _known(result.usable_bytes),
    )


def largest_topics(results: list[DescribeLogDirsResult], seen: Set[str]) -> list[TopicOnBroker]:
    """Largest ones of the topics that the user may describe."""
    sizes, replicas = Counter[str](), Counter[str]()
    for result in results:
        for topic in result.topics:
            if topic.name not in seen:
                continue
            sizes[topic.name] += sum(part.partition_size for part in topic.partitions)
            replicas[topic.name] += len(topic.partitions)
    return [TopicOnBroker(name, replicas[name], size) for name, size in sizes.most_common(MAX)]


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _sum(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
