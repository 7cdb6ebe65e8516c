"""A shard with its log in memory: the runtime without a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.coordination.shard import CoordinatorRecord, CoordinatorResult, ProducerIdAndEpoch
from barnabas.records.record import Record
from barnabas.transactions.shard import TransactionResult, TransactionShard, to_record
from barnabas.transactions.transaction import V1, Transaction

R = TypeVar("R")

NAME = "payments"
TIMEOUT_MS = 60_000
TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


class Nobody:
    """Owns a shard and has nothing to do for it."""

    def shard_loaded(self, shard: TransactionShard) -> None: ...

    def shard_unloaded(self, shard: TransactionShard) -> None: ...


class Journal:
    """Appends records of a request and replays them immediately."""

    def __init__(self, limit: int = 1000) -> None:
        self.limit = limit
        self.log: list[CoordinatorRecord] = []
        self.shard = TransactionShard(0, Nobody(), limit=lambda: limit)
        self.now_ms = 1_000_000
        self._producer_ids = iter(range(100, 10_000))

    def new_producer_id(self) -> int:
        return next(self._producer_ids)

    def run(self, result: CoordinatorResult[R]) -> R:
        for record in result.records:
            self._replay(self.shard, len(self.log), record)
            self.log.append(record)
        return result.response

    def _replay(self, shard: TransactionShard, offset: int, record: CoordinatorRecord) -> None:
        shard.replay(Record(offset, self.now_ms, record.key, record.value), None)

    def reloaded(self) -> TransactionShard:
        """A shard that has only read the log."""
        fresh = TransactionShard(0, Nobody(), limit=lambda: self.limit)
        for offset, record in enumerate(self.log):
            self._replay(fresh, offset, record)
        return fresh

    def put(self, transaction: Transaction) -> None:
        self.run(CoordinatorResult(None, [to_record(transaction)]))

    def get(self, name: str = NAME) -> Transaction:
        found = self.shard.get(name)
        assert found is not None
        return found

    def instance(self, name: str = NAME) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.get(name).producer_id, self.get(name).epoch)

    # -- requests, with what tests do not care about filled in ----------------------------------------

    def initialize(
        self,
        expected: ProducerIdAndEpoch | None = None,
        version: int = V1,
        name: str = NAME,
        timeout_ms: int = TIMEOUT_MS,
    ) -> TransactionResult:
        return self.run(
            self.shard.initialize(name, expected, timeout_ms, version, self.now_ms, self.new_producer_id)
        )

    def add(
        self,
        *partitions: TopicPartition,
        instance: ProducerIdAndEpoch | None = None,
        version: int = V1,
        name: str = NAME,
    ) -> TransactionResult:
        at = instance or self.instance(name)
        return self.run(self.shard.add_partitions(name, at, partitions, version, self.now_ms))

    def end(
        self, committed: bool, instance: ProducerIdAndEpoch | None = None, version: int = V1, name: str = NAME
    ) -> TransactionResult:
        return self.run(
            self.shard.end(
                name,
                instance or self.instance(name),
                committed=committed,
                version=version,
                now_ms=self.now_ms,
                new_producer_id=self.new_producer_id,
            )
        )

    def complete(self, name: str = NAME) -> Transaction | None:
        return self.run(self.shard.complete(self.get(name), self.now_ms))


def code_of(request: Callable[[], object]) -> ErrorCode:
    """The error that a request is answered with."""
    try:
        result = request()
    except KafkaError as error:
        return error.code
    return result.error if isinstance(result, TransactionResult) else ErrorCode.NONE
