"""Produces records to a target that assigns its own offsets: Apache Kafka, and `--merge`.

A transaction contains records, the new source positions and the runs of the offset map, so all of them are atomic. The
transactional id belongs to the link: a second mirror of the link fences the first one, and open transactions of an
earlier process are aborted before positions are read.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from barnabas.client import Client, ClientError, check_batch
from barnabas.client.mirrors.store import POSITION, RUNS, TOPIC_PARTITION, MirrorStore, key_of, record_of
from barnabas.client.producing import FENCED, Placed, TransactionalProducer
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.records import AbortedTransactions, Record, build_batch, iterate_records, largest_encoded_size
from barnabas.records.batch import iterate_headers
from barnabas.services.mirror.offset_map import OffsetMap, OffsetRun, decode_runs, encode_runs, runs_of
from barnabas.services.mirror.partition import Payload, TargetPosition
from barnabas.services.mirror.plan import MirroredTopicIds

# -- Re-encoding of source batches: committed records only, each with a provenance header --------------

PROVENANCE = "barnabas.mirror"
"""Header with the value CLUSTER/TOPIC/PARTITION/OFFSET of the original source."""
MAX_BYTES = 900 * 1024
"""Limit for the records of a batch; leaves room for the new headers below Kafka's `max.message.bytes`."""


@dataclass(slots=True)
class RecodedBatch:
    """Batch without producer id, epoch and sequence; `seal` adds them."""

    tp: TopicPartition
    records: list[Record]
    codec: int

    @property
    def count(self) -> int:
        return len(self.records)

    def seal(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> bytearray:
        return build_batch(
            self.records,
            compression=self.codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )


def recode(payload: Payload, target: TopicPartition, cluster: str) -> Iterator[RecodedBatch]:
    """Yield re-encoded batches. Raises InvalidRecords for invalid batches, CORRUPT_MESSAGE for a wrong CRC."""
    aborted = AbortedTransactions(payload.aborted)
    origin = f"{cluster}/{payload.tp.topic}/{payload.tp.partition}/"
    for start, header in iterate_headers(payload.records):
        batch = payload.records[start : start + header.size]
        check_batch(payload.tp, batch, header)
        if aborted.hide(batch, header):
            continue
        records = [
            _with_provenance(record, origin)
            for record in iterate_records(batch, header)
            if record.offset >= payload.first
        ]
        for part in _split(records) if not header.compression else (records,):
            if part:
                yield RecodedBatch(target, list(part), header.compression)


def _with_provenance(record: Record, origin: str) -> Record:
    """Add the provenance header, unless a previous mirror has added it."""
    for name, _ in record.headers:
        if name == PROVENANCE:
            return record
    value = f"{origin}{record.offset}".encode()
    return Record(
        record.offset, record.timestamp, record.key, record.value, (*record.headers, (PROVENANCE, value))
    )


def _split(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    first = size = 0
    for index, record in enumerate(records):
        needed = largest_encoded_size(record)
        if index > first and size + needed > MAX_BYTES:
            yield records[first:index]
            first, size = index, 0
        size += needed
    yield records[first:]


TRANSACTION_TIMEOUT_MS = 60_000
MAX_FENCINGS, FENCINGS_WITHIN = 3, 60.0
NOTHING = TargetPosition(0, -1, True)


class MirrorPosition(msgspec.Struct):
    """Position up to which a source partition is mirrored."""

    offset: int
    epoch: int
    topic_id: str


class ProducingTarget:
    """Transactional producer for one link. After any error, the next `target_positions` initializes it again."""

    def __init__(
        self, client: Client, store: MirrorStore, source_cluster: str, topics: Mapping[str, MirroredTopicIds]
    ) -> None:
        assert store.link is not None
        self._client = client
        self._store = store
        self._link = store.link
        self._cluster = source_cluster
        self._topics = topics
        self._producer: TransactionalProducer | None = None
        self._turn = asyncio.Lock()
        self._positions: dict[TopicPartition, MirrorPosition] = {}
        self._stored: dict[TopicPartition, deque[tuple[int, int]]] = defaultdict(deque)
        """For each stored record of runs: the source offset in its key, and the end of the runs in the target."""
        self.maps: dict[TopicPartition, OffsetMap] = defaultdict(OffsetMap)
        self._fencings: deque[float] = deque(maxlen=MAX_FENCINGS)
        self._has_twin = False
        self.bytes = 0

    async def begin(self) -> None:
        self._producer = await TransactionalProducer.take(
            self._client, f"mirror.{self._link}", TRANSACTION_TIMEOUT_MS
        )
        await self._store.open()
        self._positions = {
            TopicPartition(words[2], int(words[3])): msgspec.json.decode(value, type=MirrorPosition)
            for words, value in self._store.of_kind(POSITION)
        }
        self.maps.clear()
        self._stored.clear()
        found = ((words, decode_runs(value)) for words, value in self._store.of_kind(RUNS))
        for words, runs in sorted(found, key=lambda each: each[1][0]):
            self._remember(TopicPartition(words[2], int(words[3])), runs)

    def _note_fencing(self, error: Exception) -> None:
        """Detect a concurrent mirror: a transaction timeout fences once, a concurrent mirror repeatedly."""
        if not isinstance(error, KafkaError) or error.code not in FENCED:
            return
        self._fencings.append(time.monotonic())
        self._has_twin = (
            len(self._fencings) == MAX_FENCINGS and self._fencings[-1] - self._fencings[0] < FENCINGS_WITHIN
        )

    async def target_positions(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, TargetPosition]:
        if self._has_twin:
            text = (
                f"another mirror of the link {self._link} is running: stop it, or use another alias (--from)"
            )
            raise KafkaError(ErrorCode.PRODUCER_FENCED, text)
        if self._producer is None:
            await self.begin()
        return {tp: self._target_position(tp) for tp in partitions}

    def _target_position(self, tp: TopicPartition) -> TargetPosition:
        position, topic = self._positions.get(tp), self._topics[tp.topic]
        if position is None:
            return NOTHING
        if position.topic_id != topic.source_id.hex():
            text = f"topic {tp.topic} was deleted and recreated at the source"
            return TargetPosition(-1, -1, False, ErrorCode.INCONSISTENT_TOPIC_ID, text)
        return TargetPosition(position.offset, position.epoch, False)

    async def append(self, payloads: Sequence[Payload]) -> Mapping[TopicPartition, TargetPosition]:
        """Append in one transaction. After an error, everything is fetched again from the stored positions."""
        async with self._turn:
            if self._producer is None:
                return {
                    each.tp: TargetPosition(-1, -1, False, ErrorCode.NETWORK_EXCEPTION) for each in payloads
                }
            refused: dict[TopicPartition, TargetPosition] = {}
            batches = self._recoded(payloads, refused)
            taken = [each for each in payloads if each.tp not in refused]
            producer, self._producer = self._producer, None  # restored after success
            try:
                await self._commit(producer, taken, batches)
            except (ClientError, KafkaError) as error:
                self._note_fencing(error)
                code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
                lost = TargetPosition(-1, -1, False, code, str(error))
                return {**{each.tp: lost for each in taken}, **refused}
            self._producer = producer
            return {**{each.tp: self._target_position(each.tp) for each in taken}, **refused}

    def _recoded(
        self, payloads: Iterable[Payload], refused: dict[TopicPartition, TargetPosition]
    ) -> dict[TopicPartition, list[RecodedBatch]]:
        found: dict[TopicPartition, list[RecodedBatch]] = {}
        for payload in payloads:
            tp = payload.tp
            if payload.truncate_to >= 0:
                text = "the source was truncated, but a plain topic at the target cannot be truncated"
                refused[tp] = TargetPosition(-1, -1, False, ErrorCode.FENCED_STATE_EPOCH, text)
                continue
            try:
                target = TopicPartition(self._topics[tp.topic].target, tp.partition)
                found[tp] = list(recode(payload, target, self._cluster))
            except KafkaError as error:
                position = self._target_position(tp)
                refused[tp] = position._replace(error=ErrorCode.CORRUPT_MESSAGE, message=str(error))
        return found

    async def _commit(
        self,
        producer: TransactionalProducer,
        payloads: Sequence[Payload],
        batches: Mapping[TopicPartition, list[RecodedBatch]],
    ) -> None:
        placed = await producer.send([batch for each in batches.values() for batch in each])
        runs = {tp: self._runs(each, placed) for tp, each in batches.items() if each}
        positions = {each.tp: self._position(each) for each in payloads if len(each.records)}
        entries = [
            *(self._position_record(tp, position) for tp, position in positions.items()),
            *(self._runs_record(tp, found) for tp, found in runs.items()),
        ]
        if not entries:
            return
        await producer.send([RecodedBatch(TOPIC_PARTITION, entries, 0)])
        await producer.commit()
        self._positions.update(positions)
        for tp, found in runs.items():
            self._remember(tp, found)
        self.bytes += sum(len(each.records) for each in payloads)

    def _runs(self, batches: Sequence[RecodedBatch], placed: Placed) -> list[OffsetRun]:
        where = placed[batches[0].tp]
        runs: list[OffsetRun] = []
        for batch, appended in zip(batches, where, strict=True):
            if appended.base_offset < 0:
                raise KafkaError(
                    ErrorCode.NETWORK_EXCEPTION,
                    f"the target did not return the offset of a batch in {batch.tp}",
                )
            runs += runs_of((record.offset for record in batch.records), appended.base_offset)
        return runs

    def _position(self, payload: Payload) -> MirrorPosition:
        topic_id = self._topics[payload.tp.topic].source_id
        return MirrorPosition(payload.next_offset, payload.last_epoch, topic_id.hex())

    def _position_record(self, tp: TopicPartition, position: MirrorPosition) -> Record:
        return record_of(key_of(self._link, POSITION, *tp), msgspec.json.encode(position))

    def _runs_record(self, tp: TopicPartition, runs: Sequence[OffsetRun]) -> Record:
        return record_of(key_of(self._link, RUNS, *tp, runs[0].source), encode_runs(runs))

    def _remember(self, tp: TopicPartition, runs: Sequence[OffsetRun]) -> None:
        for run in runs:
            self.maps[tp].add(run)
        self._stored[tp].append((runs[0].source, runs[-1].target + runs[-1].length))

    async def forget_below(self, starts: Mapping[TopicPartition, int]) -> None:
        """Drop runs below the target's log start offsets. `starts` is keyed by source partition."""
        expired: list[bytes] = []
        for tp, start in starts.items():
            stored = self._stored.get(tp)
            while stored and len(stored) > 1 and stored[0][1] <= start:
                expired.append(key_of(self._link, RUNS, *tp, stored.popleft()[0]))
            self.maps[tp].forget_below(start)
        if expired:
            await self._store.write((key, None) for key in expired)
