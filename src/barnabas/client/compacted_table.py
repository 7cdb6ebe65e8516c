"""Latest values of a compacted partition, read to its end; writers may use transactions.

Many writers share the partition. A reader that stopped at the last stable offset would wait for any transaction that
another writer left open. This one reads everything and tracks transactions itself: records of a producer
count once its marker commits them. A writer's values are settled once its transactional id is initialized; before, a
value whose marker is missing is unsettled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from barnabas.client.admin import create_topic
from barnabas.client.cluster import Client
from barnabas.client.fetching import FetchedPartition, FetchSettings, fetch
from barnabas.client.offsets import EARLIEST, LATEST, list_offsets, list_offsets_once
from barnabas.client.retry import RetryPolicy, retry
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.records import Record, iterate_records, parse_end_transaction
from barnabas.records.batch import BatchHeader, iterate_headers

_FETCH_SETTINGS = FetchSettings(partition_bytes=4 * 1024 * 1024)

Values = dict[bytes, bytes | None]


async def create_if_missing(client: Client, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    try:
        await create_topic(client, topic, partitions=partitions, configs=configs)
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


class CompactedTable:
    """Values of the selected keys, up to the last read. Optionally creates a missing topic."""

    def __init__(
        self,
        client: Client,
        tp: TopicPartition,
        wanted: Callable[[bytes], bool],
        *,
        partitions: int = 1,
        configs: Mapping[str, str],
        creates: bool = True,
    ) -> None:
        self._creates = creates
        self._client = client
        self._tp = tp
        self._wanted = wanted
        self._partitions = partitions
        self._configs = configs
        self._position = 0
        self._settled: Values = {}
        self._unsettled: dict[int, Values] = {}
        """Values of open transactions, by producer."""

    @property
    def settled(self) -> bool:
        return not self._unsettled

    @property
    def values(self) -> dict[bytes, bytes]:
        """All values read, including those of open transactions.

        After a writer's id is initialized, its only unsettled values are those whose commit marker was compacted away:
        aborted records are removed before their markers.
        """
        newest = dict(self._settled)
        for values in self._unsettled.values():
            newest.update(values)
        return {key: value for key, value in newest.items() if value is not None}

    async def catch_up(self) -> None:
        async def recover(error: Exception) -> None:
            is_missing = isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_missing and self._creates:
                await create_if_missing(self._client, self._tp.topic, self._partitions, self._configs)
            await self._client.refresh_quietly([self._tp.topic])

        await retry(self._read_to_end, RetryPolicy(self._client.total_timeout), recover)

    async def _read_to_end(self) -> None:
        """Read up to the end offset at the time of the call.

        The high watermark of a fetch is not enough: that of a new leader may be below records that were
        acknowledged. ListOffsets rejects to answer until it has caught up (KIP-207).
        """
        tp = self._tp
        end = (await list_offsets_once(self._client, {tp: LATEST}))[tp].offset
        if self._position > end:
            await self._start_over()
        while self._position < end:
            leader = await self._client.leader(tp)
            (answer,) = await fetch(self._client, leader, {tp: self._position}, _FETCH_SETTINGS)
            if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._start_over()
                continue
            if answer.error:
                raise KafkaError(answer.error, f"cannot read {tp}")
            before = self._position
            self._take(answer)
            if self._position == before:
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{tp} cannot be read to its end, {end}")

    async def _start_over(self) -> None:
        """The topic was deleted and recreated."""
        found = await list_offsets(self._client, {self._tp: EARLIEST})
        self._position, self._settled, self._unsettled = found[self._tp].offset, {}, {}

    def _take(self, answer: FetchedPartition) -> None:
        for start, header in iterate_headers(answer.records):
            batch = answer.records[start : start + header.size]
            for record in self._new_records(batch, header):
                if header.is_control:
                    self._settle(header.producer_id, record)
                elif record.key is not None and self._wanted(record.key):
                    self._values_of(header)[record.key] = record.value
            self._position = max(self._position, header.next_offset)

    def _values_of(self, header: BatchHeader) -> Values:
        """Target of a batch's values: non-transactional writes count at once."""
        return (
            self._unsettled.setdefault(header.producer_id, {}) if header.is_transactional else self._settled
        )

    def _new_records(self, batch: memoryview, header: BatchHeader) -> Iterator[Record]:
        return (record for record in iterate_records(batch, header) if record.offset >= self._position)

    def _settle(self, producer_id: int, record: Record) -> None:
        marker = parse_end_transaction(record)
        if marker is None or producer_id not in self._unsettled:
            return
        values = self._unsettled.pop(producer_id)
        if marker.committed:
            self._settled.update(values)
