"""A transactional application of the simulated cluster, and a read_committed consumer.

The trader runs a consume-transform-produce loop: each transaction takes the next input, writes its own number and that
of the input to both partitions, commits the offset after the input, and ends in a commit or an abort. Inputs are plain
numbers, not records. As real producers do (KIP-890), it retries until the outcome of a transaction is known; if it is
fenced, it reinitializes and the outcome stays unknown. Unless a transaction has committed, it fetches the committed
offset from the coordinator to resume, as a restarted consumer does.
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
from barnabas.protocol.messages.transactions import (
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.schema import Message
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from simulation.clients import RETRIABLE, TOPIC, Client, Reader, Violation
from simulation.loop import START_MS
from simulation.network import CLIENT, Network

PARTITIONS = (0, 1)
INPUT = 0  # partition whose offsets the trader commits
ATTEMPTS = 6  # attempts to write a record before the transaction is aborted
MARK = b"t"
"""Prefix of transactional values, before the trader's number; values of other writers are plain numbers."""
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
    """One of several traders; each has its own transactional id, group and input."""

    def __init__(
        self, network: Network, number: int, image: Callable[[], MetadataImage], rng: random.Random
    ) -> None:
        super().__init__(network, INPUT, image, rng)
        self._name = f"trader-{number}"
        self._mark = MARK + str(number).encode()
        self.begun = 0
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        """The outcome of transactions in neither set is unknown."""
        self._identity: tuple[int, int] | None = None
        self._input: int | None = None
        """Next input to process; None until it is fetched from the coordinator."""
        self._possible = {0}
        """Committed offsets consistent with the known outcomes of transactions."""

    async def run(self) -> None:
        while not self.is_to_stop:
            if self._identity is None:
                await self._begin_again()
            elif self._input is None:
                await self._look_up_input()
            else:
                await self._trade(self._identity, self.begun, self._input)
            await asyncio.sleep(self._rng.choice((0.0, 0.02, 0.1)))
        # An open transaction would block read_committed consumers.
        self._input = None
        while self._identity is None or self._input is None:
            await (self._begin_again() if self._identity is None else self._look_up_input())
            await asyncio.sleep(0.05)

    async def _begin_again(self) -> None:
        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=60_000)
        answer = await self._ask(self._coordinator(), request)
        if answer is not None and not answer.error_code:
            self._identity = answer.producer_id, answer.producer_epoch

    async def _look_up_input(self) -> None:
        self.index = INPUT
        found = await self.committed_offset(self._name)
        if found is None:
            return
        found = max(found, 0)
        if found not in self._possible:
            raise Violation(f"{self._name}: offset {found} of its input is committed, not {self._possible}")
        self._input, self._possible = found, {found}

    async def _trade(self, identity: tuple[int, int], number: int, taken: int) -> None:
        self.begun += 1
        before, self._input, self._possible = taken, None, {taken, taken + 1}
        writes = [self._write(identity, index, number, taken) for index in PARTITIONS]
        written = await asyncio.gather(*writes, self._commit_input(identity, taken + 1))
        commits = all(written) and self._rng.random() < 0.6
        if self._identity is None or not await self._end(identity, commits):
            return
        if commits:
            self.committed.add(number)
            self._input, self._possible = before + 1, {before + 1}
        else:
            self.aborted.add(number)
            self._possible = {before}

    async def _commit_input(self, identity: tuple[int, int], offset: int) -> bool:
        partition = TxnOffsetCommitRequestPartition(INPUT, offset, committed_metadata="")
        topic = TxnOffsetCommitRequestTopic(name=TOPIC, topic_id=self._topic_id(), partitions=[partition])
        request = TxnOffsetCommitRequest(self._name, self._name, *identity, topics=[topic])
        for _ in range(ATTEMPTS):
            answer = await self._ask(self._group_coordinator(), request)
            if answer is not None and self._is_done(answer.topics[0].partitions[0].error_code):
                return self._identity is not None
            await asyncio.sleep(self._rng.choice((0.02, 0.1)))
        return False

    async def _write(self, identity: tuple[int, int], index: int, number: int, taken: int) -> bool:
        batch = build_batch(
            [Record(0, START_MS, None, self._mark + f" {number} {taken}".encode())],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=0,
            transactional=True,
        )
        for _ in range(ATTEMPTS):
            self.index = index
            data = PartitionProduceData(index=index, records=bytes(batch))
            topic = TopicProduceData(topic_id=self._topic_id(), partition_data=[data])
            request = ProduceRequest(
                transactional_id=self._name, acks=-1, timeout_ms=1500, topic_data=[topic]
            )
            answer = await self._ask(self._any_broker(), request)
            if answer is not None and self._is_done(answer.responses[0].partition_responses[0].error_code):
                return self._identity is not None
            await asyncio.sleep(self._rng.choice((0.02, 0.1)))
        return False

    async def _end(self, identity: tuple[int, int], commits: bool) -> bool:
        """End the transaction; return True if this outcome is confirmed."""
        request = EndTxnRequest(self._name, *identity, commits)
        while self._identity is not None:
            answer = await self._ask(self._coordinator(), request)
            if answer is not None and self._is_done(answer.error_code):
                if self._identity is not None and answer.producer_id >= 0:
                    self._identity = answer.producer_id, answer.producer_epoch
                return self._identity is not None
            await asyncio.sleep(self._rng.choice((0.02, 0.1)))
        return False

    def _is_done(self, code: int) -> bool:
        """True if the request must not be retried. A fenced trader drops its producer id and epoch."""
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

    # -- final comparison ---------------------------------------------------------------------------

    def compare(self, seen: list[dict[int, bytes]]) -> None:
        """Check that every transaction is visible in both partitions or in none and matches its known outcome, and that
        every input with a committed offset was processed exactly once."""
        mark = self._mark + b" "
        found = [
            [values[offset].split() for offset in sorted(values) if values[offset].startswith(mark)]
            for values in seen
        ]
        numbers, inputs = ([int(words[part]) for words in found[0]] for part in (1, 2))
        if found[0] != found[1] or numbers != sorted(set(numbers)):
            raise Violation(f"transactions were seen in part, twice or out of order: {found}")
        if inputs != list(range(self._input or 0)):
            raise Violation(f"offset {self._input} is committed, and the inputs {inputs} were processed")
        visible = set(numbers)
        if lost := self.committed - visible:
            raise Violation(f"transactions {sorted(lost)} were committed and cannot be seen")
        if shown := self.aborted & visible:
            raise Violation(f"transactions {sorted(shown)} were aborted and can be seen")


class CommittedReader(Reader):
    """Skips aborted records, as a consumer with `isolation.level=read_committed` does."""

    isolation_level = 1

    def _is_hidden(self, header: BatchHeader, data: PartitionData) -> bool:
        return header.is_transactional and any(
            one.producer_id == header.producer_id
            and one.first_offset <= header.base_offset < self._end_of(one, data)
            for one in data.aborted_transactions or ()
        )

    def _end_of(self, aborted: Any, data: PartitionData) -> int:
        """Offset of the abort marker of a transaction, or past the end if this response does not contain it."""
        for _, header in iterate_headers(data.records or b""):
            ends_it = header.is_control and header.producer_id == aborted.producer_id
            if ends_it and header.base_offset >= aborted.first_offset:
                return header.base_offset
        return 1 << 62
