"""Reads the state of a sink: the one partition of `__barnabas_sinks`, from where it was read last to its end.

All sinks of a cluster share the partition, so a reader that stopped at the last stable offset would wait for any
transaction that another driver has open, or has died with. This one reads everything and keeps the books itself: what a
producer wrote counts when its marker says so. A driver's own writes are settled once its id is claimed; before, a write
whose marker is missing makes the state unsettled.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.client.admin import create_topic
from barnabas.client.cluster import Client
from barnabas.client.fetching import FetchedPartition, FetchSettings, fetch
from barnabas.client.offsets import EARLIEST, LATEST, list_offsets, list_offsets_once
from barnabas.client.retry import Patience, retry
from barnabas.errors import ErrorCode, KafkaError
from barnabas.pipelines.sink.state import SinkState, decode_state
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.records.control import parse_end_transaction
from barnabas.records.record import Record, iterate_records
from barnabas.types import TopicPartition

SINKS_TOPIC = "__barnabas_sinks"
PLACE = TopicPartition(SINKS_TOPIC, 0)
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    # A driver that starts reads what was not compacted yet: not more than two of these.
    "segment.bytes": str(8 * 1024 * 1024),
    "max.message.bytes": str(16 * 1024 * 1024),  # a decision names every task
}
_WHAT_IS_THERE = FetchSettings(partition_bytes=4 * 1024 * 1024)


class Ledger:
    """The state of one sink, as far as it was read."""

    def __init__(self, client: Client, sink: str) -> None:
        self._client = client
        self._key = sink.encode()
        self._position = 0
        self._state = SinkState()
        self._unsettled: dict[
            int, bytes | None
        ] = {}  # by producer: what it wrote for this sink without a marker yet

    @property
    def settled(self) -> bool:
        return not self._unsettled

    @property
    def state(self) -> SinkState:
        """What was read, writes without a marker included.

        After a claim there are none of this sink's drivers but such whose commit marker was compacted away: aborted
        records go before their markers do.
        """
        values = list(self._unsettled.values())
        return _decoded(values[-1]) if values else self._state

    async def catch_up(self) -> None:
        async def recover(error: Exception) -> None:
            if isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                await self._create()
            await self._client.refresh_quietly([SINKS_TOPIC])

        await retry(self._read_to_end, Patience(self._client.total_timeout), recover)

    async def _create(self) -> None:
        try:
            await create_topic(self._client, SINKS_TOPIC, partitions=1, configs=TOPIC_SETTINGS)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def _read_to_end(self) -> None:
        """Up to where the partition ended when this was asked.

        The high watermark of a fetch will not do: that of a leader just elected may lie before records that were
        acknowledged. ListOffsets refuses to answer until it has caught up (KIP-207).
        """
        end = (await list_offsets_once(self._client, {PLACE: LATEST}))[PLACE].offset
        if self._position > end:
            await self._start_over()
        while self._position < end:
            leader = await self._client.leader(PLACE)
            (answer,) = await fetch(self._client, leader, {PLACE: self._position}, _WHAT_IS_THERE)
            if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._start_over()
                continue
            if answer.error:
                raise KafkaError(answer.error, f"cannot read {PLACE}")
            before = self._position
            self._take(answer)
            if self._position == before:
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{PLACE} cannot be read to its end, {end}")

    async def _start_over(self) -> None:
        """The topic was deleted and created again."""
        found = await list_offsets(self._client, {PLACE: EARLIEST})
        self._position, self._state, self._unsettled = found[PLACE].offset, SinkState(), {}

    def _take(self, answer: FetchedPartition) -> None:
        for start, header in iterate_headers(answer.records):
            batch = answer.records[start : start + header.size]
            for record in self._new_records(batch, header):
                if header.is_control:
                    self._settle(header.producer_id, record)
                elif record.key == self._key:
                    self._unsettled[header.producer_id] = record.value
            self._position = max(self._position, header.next_offset)

    def _new_records(self, batch: memoryview, header: BatchHeader) -> Iterator[Record]:
        return (record for record in iterate_records(batch, header) if record.offset >= self._position)

    def _settle(self, producer_id: int, record: Record) -> None:
        marker = parse_end_transaction(record)
        if marker is None or producer_id not in self._unsettled:
            return
        value = self._unsettled.pop(producer_id)
        if marker.committed:
            self._state = _decoded(value)


def _decoded(value: bytes | None) -> SinkState:
    return SinkState() if value is None else decode_state(value)
