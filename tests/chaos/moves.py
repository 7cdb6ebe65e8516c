"""A partition gets other replicas, and we decide how long that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from barnabas.client.cluster import Client
from barnabas.client.placement import reassignments
from barnabas.types import TopicPartition

PATIENCE = 60.0
THROTTLED = "follower.replication.throttled.replicas"
RATE = "follower.replication.throttled.rate"


def move(bootstrap_servers: str, place: TopicPartition, replicas: Sequence[int]) -> None:
    """Begin to move it; the cluster ends that by itself."""

    async def begin() -> None:
        async with Client(bootstrap_servers) as client:
            await reassignments.alter(client, {place: replicas})

    asyncio.run(begin())


def hold_back(bootstrap_servers: str, topic: str, newcomer: int) -> None:
    """The newcomer gets a byte in a second of what it has to catch up with."""
    _set(bootstrap_servers, ResourceType.TOPIC, topic, THROTTLED, "*")
    _set(bootstrap_servers, ResourceType.BROKER, str(newcomer), RATE, "1")


def let_go(bootstrap_servers: str, newcomer: int) -> None:
    _set(bootstrap_servers, ResourceType.BROKER, str(newcomer), RATE, str(1 << 40))


def _set(bootstrap_servers: str, kind: ResourceType, name: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(PATIENCE)
