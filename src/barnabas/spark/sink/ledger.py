"""Reads the state of a sink: its key in the one partition of `__barnabas_sinks`, which all sinks of a cluster share."""

from __future__ import annotations

from barnabas.client.cluster import Client
from barnabas.client.settled_table import SettledTable
from barnabas.spark.sink.state import SinkState, decode_state
from barnabas.common.types import TopicPartition

SINKS_TOPIC = "__barnabas_sinks"
PLACE = TopicPartition(SINKS_TOPIC, 0)
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    # A driver that starts reads what was not compacted yet: not more than two of these.
    "segment.bytes": str(8 * 1024 * 1024),
    "max.message.bytes": str(16 * 1024 * 1024),  # a decision names every task
}


class Ledger:
    """The state of one sink, as far as it was read."""

    def __init__(self, client: Client, sink: str) -> None:
        key = sink.encode()
        self._key = key
        self._table = SettledTable(client, PLACE, lambda found: found == key, configs=TOPIC_SETTINGS)

    @property
    def settled(self) -> bool:
        return self._table.settled

    @property
    def state(self) -> SinkState:
        value = self._table.values.get(self._key)
        return SinkState() if value is None else decode_state(value)

    async def catch_up(self) -> None:
        await self._table.catch_up()
