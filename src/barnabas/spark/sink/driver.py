"""Executes the programs of `protocol.py` on a cluster."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Awaitable
from typing import Any, TypeVar

from barnabas.client import Client, CompactedTable
from barnabas.client.admin import BROKER, describe_configs
from barnabas.client.producing import (
    DEFAULT_MAX_TIMEOUT_MS,
    FENCED,
    ProducerIdentity,
    TransactionalBatchProducer,
    TransactionalProducer,
    TransactionRequests,
)
from barnabas.client.transactions import MIN_TIMEOUT_MS
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.transactions import DescribeTransactionsTransactionState
from barnabas.records import Record, block_of
from barnabas.spark.sink import protocol
from barnabas.spark.sink.protocol import Batch, SinkFencedError, SinkTransactionResult
from barnabas.spark.sink.state import (
    SinkState,
    TaskTransaction,
    decode_state,
    driver_id,
    encode_state,
    run_of,
    task_id,
)

# -- Transactional ids of one process: other processes only use them to end open transactions

BatchOrigin = tuple[str, int, str, int]  # sink, run, start of the query, batch

_by_process: dict[int, TransactionalIds] = {}


class TransactionalIds:
    def __init__(self, process: str) -> None:
        self._process = process
        self._made = 0
        self._kept: dict[tuple[str, int, str], dict[str, int]] = {}  # name -> batch, by sink, run and start

    def take(self, sink: str, run: int, start: str, batch: int) -> str:
        kept = self._kept.get((sink, run, start), {})
        for name, last in kept.items():
            if last < batch:
                del kept[name]
                return name
        self._made += 1
        return task_id(sink, run, f"{self._process}.{self._made}")

    def keep(self, name: str, sink: str, run: int, start: str, batch: int) -> None:
        """Reuse for later batches. Only if all requests under the id were answered: others might still arrive."""
        if start:
            self._kept.setdefault((sink, run, start), {})[name] = batch


def own_names() -> TransactionalIds:
    """The ids of this process; a forked process has its own."""
    pid = os.getpid()
    if pid not in _by_process:
        _by_process[pid] = TransactionalIds(uuid.uuid4().hex[:12])
    return _by_process[pid]


# -- Reads the state of a sink: its key in the one partition of `__barnabas_sinks`, which all sinks of a cluster share

SINKS_TOPIC = "__barnabas_sinks"
TOPIC_PARTITION = TopicPartition(SINKS_TOPIC, 0)
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    # A driver that starts reads what was not compacted yet: not more than two of these.
    "segment.bytes": str(8 * 1024 * 1024),
    "max.message.bytes": str(16 * 1024 * 1024),  # a decision names every task
}


class Ledger:
    """State of one sink, as far as it was read."""

    def __init__(self, client: Client, sink: str) -> None:
        key = sink.encode()
        self._key = key
        self._table = CompactedTable(
            client, TOPIC_PARTITION, lambda found: found == key, configs=TOPIC_SETTINGS
        )

    @property
    def settled(self) -> bool:
        return self._table.settled

    @property
    def state(self) -> SinkState:
        value = self._table.values.get(self._key)
        return SinkState() if value is None else decode_state(value)

    async def catch_up(self) -> None:
        await self._table.catch_up()


T = TypeVar("T")

DRIVER_TIMEOUT_MS = 60_000  # of the driver's own transactions, each of which takes milliseconds
MAX_AT_ONCE = 50  # concurrent requests to coordinators
_COMMITTED = ("PrepareCommit", "CompleteCommit")
_UNKNOWN_ID = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class SinkDriver:
    """State that a driver process keeps per sink between batches: its claim and the state read so far."""

    def __init__(self, client: Client, sink: str) -> None:
        self._client = client
        self._sink = sink
        self._transactions = TransactionRequests(client)
        self._ledger = Ledger(client, sink)
        self._producer: TransactionalProducer | None = None  # the claim
        self._longest_timeout: int | None = None
        self._written: SinkState | None = None  # by this claim: no other driver can have written since

    async def run(self, program: protocol.Steps[T]) -> T:
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                step = program.throw(failure) if failure else program.send(answer)
            except StopIteration as end:
                value: T = end.value
                return value
            answer, failure = None, None
            try:
                answer = await self._perform(step)
            except SinkFencedError as error:
                failure = error

    async def _perform(self, step: protocol.Step) -> Any:
        match step:
            case protocol.ClaimSink(fresh):
                await self._claim(fresh)
            case protocol.Read():
                return await self._read()
            case protocol.ReadUnclaimed():
                await self._ledger.catch_up()
                return self._ledger.state, self._ledger.settled
            case protocol.Write(state, rows):
                await self._write(state, rows)
            case protocol.CheckParts(parts):
                return await self._check(parts)
            case protocol.CommitParts(parts):
                return await _all([self._end(part) for part in parts])
            case protocol.Abort(names):
                await _all([self._transactions.initialize(name, MIN_TIMEOUT_MS) for name in names])
            case protocol.Open():
                found = [(name, run_of(self._sink, name)) for name in await self._transactions.ongoing()]
                return [(name, run) for name, run in found if run is not None]
            case protocol.StoreBatch(batch):
                return await self._store(batch)
        return None

    async def longest_timeout(self) -> int:
        """transaction.max.timeout.ms of the broker."""
        if self._longest_timeout is None:
            self._longest_timeout = await _longest_timeout(self._client)
        return self._longest_timeout

    # -- the state ----------------------------------------------------------------------------------------

    async def _claim(self, fresh: bool) -> None:
        if self._producer is not None and not fresh:
            return
        self._producer, self._written = None, None
        self._producer = await TransactionalProducer.take(
            self._client, driver_id(self._sink), DRIVER_TIMEOUT_MS
        )

    async def _read(self) -> SinkState:
        if self._written is None:
            await self._ledger.catch_up()
            self._written = self._ledger.state
        return self._written

    async def _write(self, state: SinkState | None, rows: tuple[Any, ...]) -> None:
        assert self._producer is not None
        producer, self._producer, self._written = (
            self._producer,
            None,
            None,
        )  # until the write is known to have succeeded
        value = None if state is None else encode_state(state)
        record = Record(0, time.time_ns() // 1_000_000, self._sink.encode(), value)
        try:
            await producer.send(rows)
            await producer.send([block_of(TOPIC_PARTITION, record)])  # last: it says that all rows are there
            await producer.commit()
        except KafkaError as error:
            if error.code in FENCED:
                raise SinkFencedError(str(error)) from error
            raise
        self._producer, self._written = producer, state or SinkState()

    # -- the tasks' transactions --------------------------------------------------------------------------

    async def _check(self, parts: tuple[TaskTransaction, ...]) -> list[SinkTransactionResult]:
        known = await self._transactions.describe([part.transactional_id for part in parts])
        return [_outcome(part, known.get(part.transactional_id)) for part in parts]

    async def _end(self, part: TaskTransaction) -> SinkTransactionResult:
        identity = ProducerIdentity(part.producer_id, part.epoch)
        try:
            await self._transactions.end(part.transactional_id, identity, committed=True)
        except KafkaError as error:
            if error.code in FENCED:
                return (
                    SinkTransactionResult.UNKNOWN if error.code == _UNKNOWN_ID else SinkTransactionResult.LOST
                )
            raise
        return SinkTransactionResult.COMMITTED

    async def _store(self, batch: Batch) -> TaskTransaction:
        origin = (self._sink, batch.run, batch.start, batch.number)
        name = own_names().take(*origin)
        timeout_ms = await self.longest_timeout()

        async def initialize() -> ProducerIdentity:
            return await self._transactions.initialize(name, timeout_ms, without_timeout=True)

        producer = TransactionalBatchProducer(self._transactions, await initialize(), name, initialize)
        await producer.send(batch.rows)
        own_names().keep(name, *origin)
        return TaskTransaction(name, producer.identity.producer_id, producer.identity.epoch)


async def _longest_timeout(client: Client) -> int:
    try:
        broker = next(iter((await client.refresh([])).brokers))
        settings = await describe_configs(client, BROKER, str(broker))
        found = next(one.value for one in settings if one.name == "transaction.max.timeout.ms")
    except (KafkaError, StopIteration):
        return DEFAULT_MAX_TIMEOUT_MS  # not every user may read broker configs
    return int(found or DEFAULT_MAX_TIMEOUT_MS)


async def _all(work: list[Awaitable[T]]) -> list[T]:
    """Results of many requests, with bounded concurrency."""
    turns = asyncio.Semaphore(MAX_AT_ONCE)

    async def in_turn(one: Awaitable[T]) -> T:
        async with turns:
            return await one

    return await asyncio.gather(*(in_turn(one) for one in work))


def _outcome(
    part: TaskTransaction, known: DescribeTransactionsTransactionState | None
) -> SinkTransactionResult:
    if known is None:
        return SinkTransactionResult.UNKNOWN
    if (known.producer_id, known.producer_epoch) != (part.producer_id, part.epoch):
        return SinkTransactionResult.LOST
    if known.transaction_state == "Ongoing":
        return SinkTransactionResult.OPEN
    return (
        SinkTransactionResult.COMMITTED
        if known.transaction_state in _COMMITTED
        else SinkTransactionResult.LOST
    )


def owner_of_this_process() -> str:
    """Identify the driver that this worker process belongs to: the first ancestor that is not Python.

    Spark plans and commits a batch in two different Python workers, and stops and starts workers; their common
    ancestor is the JVM. Its start time distinguishes it from a later process with the same id.
    """
    pid = os.getppid()
    for _ in range(3):
        name, parent, started = _process(pid)
        if not name.startswith("python"):
            return f"{socket.gethostname()}/{pid}/{started}"
        pid = parent
    return f"{socket.gethostname()}/{os.getppid()}/{time.time_ns()}"


def _process(pid: int) -> tuple[str, int, str]:
    """(name, parent, start time) from Linux's /proc; elsewhere every parent counts as the driver."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            text = file.read()
    except OSError:
        return "?", 0, "?"
    name = text[text.index("(") + 1 : text.rindex(")")]
    fields = text[text.rindex(")") + 2 :].split()
    return name, int(fields[1]), fields[19]
