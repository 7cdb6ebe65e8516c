"""Transactions by age: open and hanging ones, and aborting them."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec

from barnabas.client import transactions
from barnabas.client.transactions import NO_TIMEOUT_MS, OPEN_STATES
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.transactions import (
    DescribeTransactionsTransactionState,
    ListTransactionsTransactionState,
    ProducerState,
)
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.administration.rights import confirmed, may_change, may_change_cluster
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError
from barnabas.services.console.needs import SHOWN, cluster, topic, transactional_id
from barnabas.services.console.routes import ActionResult, NavigationEntry, Routes

routes = Routes()

MAX_TIMEOUT_MINUTES = 15  # transaction.max.timeout.ms: producers silent for longer are not just slow
MAX_PARTITIONS = 20_000
MAX_ROWS = 500


class TransactionsQuery(msgspec.Struct):
    state: str = ""
    """Transaction state, for example Ongoing."""
    longer: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    """Minimum duration of an open transaction, in seconds."""
    q: str = ""
    """Part of the transactional id."""
    hanging: bool = False
    """Also search partitions for transactions without a coordinator; slower."""
    topic: str = ""
    """Search only this topic for hanging transactions."""
    minutes: Annotated[int, msgspec.Meta(ge=0, le=10**9)] = MAX_TIMEOUT_MINUTES
    """Minimum time since the producer of a hanging transaction was active."""


class TransactionQuery(msgspec.Struct):
    transactional_id: str


class AbortForm(msgspec.Struct):
    transactional_id: str
    confirm: str
    """Transactional id, typed to confirm."""


class AbortHangingForm(msgspec.Struct):
    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
    start_offset: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    confirm: str
    """Start offset of the transaction, typed to confirm."""


class TransactionRow(msgspec.Struct):
    id: str
    state: str
    producer_id: int
    coordinator: int
    open_seconds: float | None
    timeout_seconds: float | None
    """None: not open, or ended only by its owner (two-phase commit)."""
    two_phase: bool
    overdue: bool
    """Open past its timeout: the coordinator should have ended it."""


class HangingRow(msgspec.Struct):
    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    silent_seconds: float


class TransactionsPage(msgspec.Struct):
    rows: list[TransactionRow]
    more: int
    """Number of rows not shown."""
    states: list[str]
    hanging: list[HangingRow] | None
    """None if not requested."""
    may_abort_hanging: bool


class TransactionPage(msgspec.Struct):
    row: TransactionRow
    epoch: int
    partitions: list[str]
    may_abort: bool


@routes.page(
    "/transactions",
    needs=SHOWN,
    template="cluster/transactions.html",
    entry=NavigationEntry("Transactions", "x", 45, "transactions", "Processing"),
)
async def show_transactions(context: RequestScope, query: TransactionsQuery) -> TransactionsPage:
    """Transactional ids that the user may describe, longest open first; with `hanging`, hanging transactions too."""
    listed = await transactions.list_transactions(
        context.client,
        [query.state] if query.state else (),
        -1 if query.longer is None else round(query.longer * 1000),
    )
    names = [one.transactional_id for _, one in listed if query.q.lower() in one.transactional_id.lower()]
    allowed = await context.allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, names)
    listed = [(broker, one) for broker, one in listed if one.transactional_id in allowed]
    known = await transactions.describe_open(context.client, listed)
    now = _now_ms()
    rows = [row_of(broker, one, known.get(one.transactional_id), now) for broker, one in listed]
    rows.sort(key=lambda row: (-(row.open_seconds or -1), row.id))
    return TransactionsPage(
        rows[:MAX_ROWS],
        max(0, len(rows) - MAX_ROWS),
        sorted(OPEN_STATES | {row.state for row in rows}),
        await _find_hanging(context, query, now) if query.hanging else None,
        await may_change_cluster(context, Operation.ALTER),
    )


@routes.page(
    "/transactions/{transactional_id}",
    needs=transactional_id(Operation.DESCRIBE),
    template="cluster/transaction.html",
)
async def show_transaction(context: RequestScope, query: TransactionQuery) -> TransactionPage:
    """One transactional id: its state, and the partitions of its open transaction in topics that the user may
    describe."""
    coordinator, state = await transactions.describe_transaction(context.client, query.transactional_id)
    described = await context.allowed(
        Operation.DESCRIBE, ResourceType.TOPIC, [topic.topic for topic in state.topics]
    )
    listed = ListTransactionsTransactionState(
        state.transactional_id, state.producer_id, state.transaction_state
    )
    return TransactionPage(
        row_of(coordinator, listed, state, _now_ms()),
        state.producer_epoch,
        [
            f"{topic.topic}-{index}"
            for topic in state.topics
            if topic.topic in described
            for index in topic.partitions
        ],
        await may_change(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, query.transactional_id),
    )


@routes.action("/transactions/{transactional_id}/abort", needs=transactional_id(Operation.WRITE))
async def abort_transaction(context: RequestScope, form: AbortForm) -> ActionResult:
    """Abort the transaction of an id and fence its producer, as a new producer instance would."""
    confirmed(form.confirm, form.transactional_id)
    await transactions.describe_transaction(
        context.client, form.transactional_id
    )  # fails for an unknown id, which fencing would create
    await transactions.fence(context.client, form.transactional_id)
    return ActionResult(f"{form.transactional_id} has no open transaction now.", "/transactions")


@routes.action("/topics/{topic}/abort-hanging", needs=cluster(Operation.ALTER) & topic(Operation.READ))
async def abort_hanging(context: RequestScope, form: AbortHangingForm) -> ActionResult:
    """Write the missing abort marker of a transaction that hangs in a partition."""
    confirmed(form.confirm, str(form.start_offset))
    tp = TopicPartition(form.topic, form.partition)
    producer = await transactions.abort_hanging(context.client, tp, form.start_offset)
    return ActionResult(
        f"The transaction of producer {producer.producer_id} in {tp} is aborted.", "/transactions"
    )


def row_of(
    coordinator: int,
    listed: ListTransactionsTransactionState,
    state: DescribeTransactionsTransactionState | None,
    now_ms: int,
) -> TransactionRow:
    is_open = state is not None and state.transaction_start_time_ms >= 0 and bool(state.topics)
    two_phase = state is not None and state.transaction_timeout_ms == NO_TIMEOUT_MS
    age = max(0, now_ms - state.transaction_start_time_ms) / 1000 if state is not None and is_open else None
    timeout = state.transaction_timeout_ms / 1000 if state is not None and not two_phase else None
    return TransactionRow(
        listed.transactional_id,
        listed.transaction_state,
        listed.producer_id,
        coordinator,
        age,
        timeout,
        two_phase,
        age is not None and timeout is not None and age > timeout,
    )


def hanging_row(tp: TopicPartition, producer: ProducerState, now_ms: int) -> HangingRow:
    return HangingRow(
        *tp,
        producer.current_txn_start_offset,
        producer.producer_id,
        producer.producer_epoch,
        max(0, now_ms - producer.last_timestamp) / 1000,
    )


async def _find_hanging(context: RequestScope, query: TransactionsQuery, now_ms: int) -> list[HangingRow]:
    """Search the topics that the user may read, as brokers require READ to list producers."""
    topics = await (context.client.topics([query.topic]) if query.topic else context.client.all_topics())
    allowed = await context.allowed(Operation.READ, ResourceType.TOPIC, list(topics))
    partitions = [
        TopicPartition(name, index)
        for name, topic in topics.items()
        if name in allowed
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
    ]
    if len(partitions) > MAX_PARTITIONS:
        raise BadInputError(f"There are {len(partitions):,} partitions: name a topic to look in", "topic")
    found = await transactions.find_hanging(context.client, partitions, query.minutes * 60_000, now_ms)
    return [hanging_row(tp, producer, now_ms) for tp, producer in found]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
