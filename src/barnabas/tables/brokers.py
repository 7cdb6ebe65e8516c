"""Topics of a running cluster, read like any consumer: the brokers check READ and DESCRIBE on the topic."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client import Client, FetchSettings, RangeFetcher
from barnabas.client.offsets import (
    MAX_TIMESTAMP,
    READ_COMMITTED,
    OffsetRange,
    beginning_offsets,
    end_offsets,
    list_offsets,
)
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.common.types import TopicPartition
from barnabas.tables.errors import TableError
from barnabas.tables.sources import Bounds, OpenSource, Snapshot, TableSource, TimeBound

FETCH = FetchSettings(partition_bytes=8 * 1024 * 1024, isolation=READ_COMMITTED)
STALLED_SECONDS = 60.0


def open_brokers(bootstrap: str, security: ClientSecurity = PLAINTEXT) -> OpenSource:
    async def open_source() -> TableSource:
        return BrokerTableSource(Client(bootstrap, client_id="barnabas-table", security=security))

    return open_source


class BrokerTableSource:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def topics(self) -> list[str]:
        return sorted(await self._client.all_topics())

    async def snapshot(self, topic: str) -> Snapshot:
        partitions = await self._client.partitions([topic])
        first = await beginning_offsets(self._client, partitions)
        until = await end_offsets(self._client, partitions, READ_COMMITTED)
        return {tp: Bounds(first[tp], max(first[tp], until[tp])) for tp in partitions}

    async def since(self, snapshot: Snapshot, timestamp: int) -> dict[TopicPartition, int]:
        found = await list_offsets(self._client, dict.fromkeys(snapshot, timestamp))
        return {
            tp: answer.offset if answer.offset >= 0 else snapshot[tp].until for tp, answer in found.items()
        }

    async def time_bounds(self, snapshot: Snapshot, limit: int) -> dict[TopicPartition, list[TimeBound]]:
        """ListOffsets returns the first record that is not older, in any order of timestamps."""
        found: dict[TopicPartition, list[TimeBound]] = {tp: [] for tp in snapshot}
        filled = [tp for tp, bounds in snapshot.items() if bounds.until > bounds.first]
        if not filled:
            return found
        newest = await list_offsets(self._client, dict.fromkeys(filled, MAX_TIMESTAMP))
        oldest = await list_offsets(self._client, dict.fromkeys(filled, 0))
        last = max(answer.timestamp for answer in newest.values()) + 1
        first = min((answer.timestamp for answer in oldest.values() if answer.offset >= 0), default=last)
        step = max(1, (last - first) // limit)
        for timestamp in range(first + step, last + step, step):
            for tp, offset in (await self.since({tp: snapshot[tp] for tp in filled}, timestamp)).items():
                found[tp].append(TimeBound(offset, timestamp))
        return found

    def read(self, ranges: Iterable[OffsetRange]) -> RangeFetcher:
        return RangeFetcher(self._client, ranges, FETCH, STALLED_SECONDS, _lose)

    async def close(self) -> None:
        await self._client.close()


def _lose(what: str) -> None:
    raise TableError(f"{what}. It was deleted during the read; retry")
