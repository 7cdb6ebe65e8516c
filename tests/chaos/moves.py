"""A partition gets other replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from barnabas.client import reassignments
from barnabas.client.cluster import Client
from barnabas.types import TopicPartition


def move(bootstrap_servers: str, place: TopicPartition, replicas: Sequence[int]) -> None:
    """Begin to move it; the cluster ends that by itself."""

    async def begin() -> None:
        async with Client(bootstrap_servers) as client:
            await reassignments.alter(client, {place: replicas})

    asyncio.run(begin())
