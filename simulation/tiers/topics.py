"""Settings of a tiered topic in the simulator, and a client that deletes its oldest records."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from simulation.brokers import Machine, Tiers
from simulation.clients import TOPIC, Acknowledging, Client, Reader, Writer
from simulation.loop import START_MS
from simulation.network import CLIENT, Network

KEPT_BYTES = 500
"""retention.bytes, if set: a few segments."""
KEPT_MS = 24 * 3600 * 1000
RUN = 4  # consecutive records of the same age: about a segment
SEGMENT_BYTES = (150, 300, 600)  # a batch has about 70
LOCAL_RETENTION = (
    {"local.retention.ms": "1"},
    {"local.retention.ms": "400"},
    {"local.retention.bytes": "1"},
    {"local.retention.bytes": "400"},
)


class Expiry(Enum):
    """Reason for records of a scenario to expire."""

    NONE = "they stay"
    DELETE_RECORDS = "DeleteRecords"
    SIZE = "retention.bytes"
    AGE = "retention.ms, with records that come out of order"


def tiered_settings(rng: random.Random, expiry: Expiry) -> dict[str, str]:
    """Settings with short local retention; remote retention depends on `expiry`."""
    return {
        "remote.storage.enable": "true",
        "retention.ms": str(KEPT_MS if expiry is Expiry.AGE else -1),
        "retention.bytes": str(KEPT_BYTES if expiry is Expiry.SIZE else -1),
        "internal.segment.bytes": str(rng.choice(SEGMENT_BYTES)),
    } | rng.choice(LOCAL_RETENTION)


class Backfiller(Writer):
    """Writes runs of new records and of records older than `retention.ms`. An old record may expire only if no new
    record precedes it."""

    def __init__(
        self, network: Network, index: int, image: Callable[[], MetadataImage], rng: random.Random
    ) -> None:
        super().__init__(network, index, image, rng)
        self._are_old: list[bool] = []

    def _timestamp(self, value: int) -> int:
        run = value // RUN
        while len(self._are_old) <= run:
            likely = 0.6 if self._are_old else 0.2  # retained records must come first
            self._are_old.append(self._rng.random() < likely)
        return START_MS - 10 * KEPT_MS if self._are_old[run] else START_MS

    def may_start_at(self) -> int:
        """Offset of the first new record, among the acknowledged ones: no later record may have expired."""
        new = (offset for offset, value in self.acknowledged.items() if self._timestamp(value) == START_MS)
        return min(new, default=self.last_acknowledged + 1)


class Pruner(Client):
    """Deletes acknowledged records: no record above the requested offsets may ever be missing."""

    def __init__(
        self,
        network: Network,
        image: Callable[[], MetadataImage],
        rng: random.Random,
        writers: Sequence[Acknowledging],
    ) -> None:
        super().__init__(network, 0, image, rng)
        self._writers = writers
        self.asked = [0] * len(writers)
        self.granted = [0] * len(writers)

    async def run(self) -> None:
        while not self.is_to_stop:
            await asyncio.sleep(self._rng.choice((0.1, 0.3)))
            writer = self._rng.choice(self._writers)
            if writer.last_acknowledged > self.asked[writer.index]:
                self.asked[writer.index] = self._rng.randint(
                    self.asked[writer.index], writer.last_acknowledged
                )
            await self._delete(writer.index, self.asked[writer.index])

    async def _delete(self, index: int, offset: int) -> None:
        self.index = index
        topic = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(index, offset)])
        try:
            request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
            response = await self._network.send(CLIENT, self._any_broker(), request)
        except KafkaError:
            return
        answer = response.topics[0].partitions[0]
        if answer.error_code == ErrorCode.NONE:
            self.granted[index] = max(self.granted[index], answer.low_watermark)


def first_offset(tiers: Tiers, machines: Iterable[Machine], index: int) -> int:
    """Highest log start offset of a partition that any broker has or had. A broker that is shutting down still expires
    records and serves requests."""
    brokers = [machine.broker or machine.server for machine in machines]
    found = [broker.replicas.find(TOPIC, index) for broker in brokers if broker is not None]
    return max(tiers.starts[index], *(each.log.log_start_offset for each in found if each is not None), 0)


class PatientReader(Reader):
    """Skips records that expired before they were read; all others must exist."""

    def __init__(
        self,
        network: Network,
        index: int,
        image: Callable[[], MetadataImage],
        rng: random.Random,
        starts: Callable[[int], int],
    ) -> None:
        super().__init__(network, index, image, rng)
        self._starts = starts

    def _miss(self, log_start: int) -> None:
        start = max(log_start, self._starts(self.index))
        if start <= self.position:
            super()._miss(log_start)
        self.position = start
