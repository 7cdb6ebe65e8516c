"""Replica moves at a controlled speed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from barnabas.client.cluster import Client
from barnabas.client.placement import reassignments
from barnabas.client.security.parsing import parse_security
from barnabas.common.types import TopicPartition
from barnabas.testing.client_settings import ClientSettings

TIMEOUT = 60.0
THROTTLED = "follower.replication.throttled.replicas"
RATE = "follower.replication.throttled.rate"


def move(clients: ClientSettings, tp: TopicPartition, replicas: Sequence[int]) -> None:
    """Start a reassignment; the cluster completes it."""

    async def begin() -> None:
        async with Client(clients.bootstrap_servers, security=parse_security(clients.java)) as client:
            await reassignments.alter(client, {tp: replicas})

    asyncio.run(begin())


def hold_back(clients: ClientSettings, topic: str, newcomer: int) -> None:
    """Throttle the new replica to a byte per second."""
    _set(clients, ResourceType.TOPIC, topic, THROTTLED, "*")
    _set(clients, ResourceType.BROKER, str(newcomer), RATE, "1")


def let_go(clients: ClientSettings, newcomer: int) -> None:
    _set(clients, ResourceType.BROKER, str(newcomer), RATE, str(1 << 40))


def _set(clients: ClientSettings, kind: ResourceType, name: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin = AdminClient(clients.confluent)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(TIMEOUT)
