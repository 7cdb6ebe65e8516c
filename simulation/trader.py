"""A transactional producer of the simulated cluster, and a reader who sees only what was committed.

Every transaction writes its number to both partitions, and is committed or aborted. As real producers do (KIP-890), it
tries again until it knows how a transaction ended; if it is fenced, it begins again and does not know.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.internal_topics import TRANSACTION_STATE
from barnabas.protocol.messages.fetch import PartitionData
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from barnabas.protocol.schema import Message
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from simulation.clients import RETRIABLE, TOPIC, Client, Reader, Violation
from simulation.loop import START_MS
from simulation.network import CLIENT, Network

TRANSACTIONAL_ID = "trader"
PARTITIONS = (0, 1)
ATTEMPTS = 6  # to write a record, before the transaction is aborted
MARK = b"t"
"""What the values of a transaction begin with; those of other writers are numbers."""
FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class Trader(Client):
    def __init__(self, network: Network, image: Callable[[], MetadataImage], chance: random.Random) -> None:
        super().__init__(network, 0, image, chance)
        self.begun = 0
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        """Of the others it is not known how they ended."""
        self._identity: tuple[int, int] | None = None

    async def run(self) -> None:
        while not self.is_to_stop:
            if self._identity is None:
                await self._begin_again()
            else:
                await self._trade(self._identity, self.begun)
            await asyncio.sleep(self._chance.choice((0.0, 0.02, 0.1)))
        # Whatever is still open would hold up readers of what is committed.
        while self._identity is None:
            await self._begin_again()
            await asyncio.sleep(0.05)

    async def _begin_again(self) -> None:
        request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
        answer = await self._ask(self._coordinator(), request)
        if answer is not None and not answer.error_code:
            self._identity = answer.producer_id, answer.producer_epoch

    async def _trade(self, identity: tuple[int, int], number: int) -> None:
        self.begun += 1
        written = [await self._write(identity, index, number) for index in PARTITIONS]
        commits = all(written) and self._chance.random() < 0.75
        if self._identity is not None and await self._end(identity, commits):
            (self.committed if commits else self.aborted).add(number)

    async def _write(self, identity: tuple[int, int], index: int, number: int) -> bool:
        batch = build_batch(
            [Record(0, START_MS, None, MARK + str(number).encode())],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=0,
            transactional=True,
        )
        for _ in range(ATTEMPTS):
            self.index = index
            data = PartitionProduceData(index=index, records=bytes(batch))
            topic = TopicProduceData(topic_id=self._image().topics[TOPIC].topic_id, partition_data=[data])
            request = ProduceRequest(
                transactional_id=TRANSACTIONAL_ID, acks=-1, timeout_ms=1500, topic_data=[topic]
            )
            answer = await self._ask(self._any_broker(), request)
            if answer is not None and self._is_done(answer.responses[0].partition_responses[0].error_code):
                return self._identity is not None
            await asyncio.sleep(self._chance.choice((0.02, 0.1)))
        return False

    async def _end(self, identity: tuple[int, int], commits: bool) -> bool:
        """Is it known that it has ended so?"""
        request = EndTxnRequest(TRANSACTIONAL_ID, *identity, commits)
        while self._identity is not None:
            answer = await self._ask(self._coordinator(), request)
            if answer is not None and self._is_done(answer.error_code):
                if self._identity is not None and answer.producer_id >= 0:
                    self._identity = answer.producer_id, answer.producer_epoch
                return self._identity is not None
            await asyncio.sleep(self._chance.choice((0.02, 0.1)))
        return False

    def _is_done(self, code: int) -> bool:
        """Need it not be tried again? When it was fenced, it has no identity any more."""
        if code in FENCED:
            self._identity = None
        elif code and code not in RETRIABLE and code != ErrorCode.CONCURRENT_TRANSACTIONS:
            raise Violation(f"a transaction met {ErrorCode(code).name}")
        return code == ErrorCode.NONE or code in FENCED

    async def _ask(self, target: int, request: Message) -> Any:
        try:
            return await self._network.send(CLIENT, target, request)
        except KafkaError:
            return None

    def _coordinator(self) -> int:
        state = self._image().partition(TRANSACTION_STATE, 0)
        return state.leader if state is not None else 1

    # -- the end ------------------------------------------------------------------------------------

    def compare(self, seen: list[dict[int, bytes]]) -> None:
        """Every transaction is seen in both partitions or in none, and as it was told to have ended."""
        found = [
            [int(values[offset][1:]) for offset in sorted(values) if values[offset].startswith(MARK)]
            for values in seen
        ]
        if found[0] != found[1] or found[0] != sorted(set(found[0])):
            raise Violation(f"transactions were seen in part, twice or out of order: {found}")
        visible = set(found[0])
        if lost := self.committed - visible:
            raise Violation(f"transactions {sorted(lost)} were committed and cannot be seen")
        if shown := self.aborted & visible:
            raise Violation(f"transactions {sorted(shown)} were aborted and can be seen")


class CommittedReader(Reader):
    """Skips what was aborted, as a consumer with `isolation.level=read_committed` does."""

    isolation_level = 1

    def _is_hidden(self, header: BatchHeader, data: PartitionData) -> bool:
        return header.is_transactional and any(
            one.producer_id == header.producer_id
            and one.first_offset <= header.base_offset < self._end_of(one, data)
            for one in data.aborted_transactions or ()
        )

    def _end_of(self, aborted: Any, data: PartitionData) -> int:
        """Where the marker of an aborted transaction stands; behind everything, if it is not in this answer."""
        for _, header in iterate_headers(data.records or b""):
            ends_it = header.is_control and header.producer_id == aborted.producer_id
            if ends_it and header.base_offset >= aborted.first_offset:
                return header.base_offset
        return 1 << 62
