"""Requests to pause, resume or restart connectors: the newest one of each in the compacted topic `__barnabas_connect`.

Any client that may write to the topic can send one, such as a console on another machine. The process that runs the
connector polls the topic, carries out each request once, and notes its id next to its other state.
"""

from __future__ import annotations

import secrets
import time
from typing import Literal

import msgspec

from barnabas.client.cluster import Client
from barnabas.client.compacted_table import CompactedTable, create_if_missing
from barnabas.client.producer import Producer
from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition

CONNECT_TOPIC = "__barnabas_connect"
TOPIC_SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(1024 * 1024)}

ConnectorAction = Literal["pause", "resume", "restart"]


class ConnectorRequest(msgspec.Struct, frozen=True):
    request: ConnectorAction
    id: str
    """A request with the same id is carried out once."""
    at: int
    """Epoch milliseconds."""
    by: str = ""
    """The user, for display."""


async def request_connector(
    client: Client, name: str, kind: ConnectorAction, by: str = ""
) -> ConnectorRequest:
    """Send a request; needs WRITE on the topic, and CREATE the first time."""
    request = ConnectorRequest(kind, secrets.token_hex(8), time.time_ns() // 1_000_000, by)
    if not await _exists(client):
        await create_if_missing(client, CONNECT_TOPIC, 1, TOPIC_SETTINGS)
    async with Producer(client) as producer:
        await producer.send(CONNECT_TOPIC, msgspec.json.encode(request), name.encode(), partition=0)
    return request


class ConnectorRequests:
    """The newest request for each connector of a process; never creates the topic."""

    def __init__(self, client: Client, *names: str) -> None:
        self._client = client
        self._keys = {name.encode() for name in names}
        self._table = self._empty()

    async def newest(self) -> dict[str, ConnectorRequest]:
        """Newest requests by connector; empty if the topic does not exist."""
        if not await _exists(self._client):
            self._table = self._empty()
            return {}
        await self._table.catch_up()
        found: dict[str, ConnectorRequest] = {}
        for key, value in self._table.values.items():
            try:
                found[key.decode()] = msgspec.json.decode(value, type=ConnectorRequest)
            except msgspec.MsgspecError:
                continue  # written by a newer version
        return found

    def _empty(self) -> CompactedTable:
        tp = TopicPartition(CONNECT_TOPIC, 0)
        return CompactedTable(
            self._client,
            tp,
            lambda key: not self._keys or key in self._keys,
            configs=TOPIC_SETTINGS,
            creates=False,
        )


async def _exists(client: Client) -> bool:
    topic = (await client.refresh([CONNECT_TOPIC])).topics[CONNECT_TOPIC]
    return topic.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
