"""An in-memory model of a cluster and Spark drivers for the sink's protocol: any step can be the last."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from barnabas.spark.sink import protocol
from barnabas.spark.sink.driver import TransactionalIds
from barnabas.spark.sink.protocol import Batch, SinkError, SinkFencedError, SinkTransactionResult
from barnabas.spark.sink.state import SinkState, TaskTransaction, run_of

SINK = "s"
QUERY = "query"


@dataclass
class Transaction:
    epoch: int = -1
    state: str = "Empty"
    rows: list[str] = field(default_factory=list)


class Cluster:
    """Transactions V1: only InitProducerId and a timeout raise an epoch."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.states: list[SinkState] = [SinkState()]
        self.claims = 0
        self.processes = 0
        self.topic: list[str] = []

    def new_process(self) -> int:
        self.processes += 1
        return self.processes

    def begin(self, name: str) -> TaskTransaction:
        transaction = self.transactions.setdefault(name, Transaction())
        self.transactions[name] = Transaction(transaction.epoch + 1)
        return TaskTransaction(name, 1, transaction.epoch + 1)

    def produce(self, part: TaskTransaction, rows: list[str]) -> None:
        transaction = self.transactions[part.transactional_id]
        if transaction.epoch != part.epoch:
            raise SinkFencedError
        transaction.state = "Ongoing"
        transaction.rows += rows

    def end(self, part: TaskTransaction) -> SinkTransactionResult:
        transaction = self.transactions[part.transactional_id]
        if transaction.epoch != part.epoch:
            return SinkTransactionResult.LOST
        if transaction.state == "Ongoing":
            transaction.state = "CompleteCommit"
            self.topic += transaction.rows
        return (
            SinkTransactionResult.COMMITTED
            if transaction.state == "CompleteCommit"
            else SinkTransactionResult.LOST
        )

    def check(self, part: TaskTransaction) -> SinkTransactionResult:
        transaction = self.transactions[part.transactional_id]
        if transaction.epoch != part.epoch:
            return SinkTransactionResult.LOST
        return (
            SinkTransactionResult.OPEN if transaction.state == "Ongoing" else SinkTransactionResult.COMMITTED
        )

    def open_transactions(self) -> list[str]:
        return [name for name, one in self.transactions.items() if one.state == "Ongoing"]

    def time_out(self, name: str) -> None:
        if self.transactions[name].state == "Ongoing":
            self.begin(name)


class Driver:
    """One driver process: it runs batches step by step, like Spark. `checkpoint` is Spark's commit log, which
    survives the driver and is shared by its successors."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        checkpoint: set[int],
        batches: int,
        inline: bool,
        query: str = QUERY,
        owner: str = "",
        tidies: bool = False,
    ) -> None:
        self.cluster, self.name, self._inline, self._query = cluster, name, inline, query
        self._owner = owner or name
        self._tidies = tidies  # after every batch, and not only after one with a late attempt
        self._parts: list[TaskTransaction] = []  # of the tasks of the last batch that have ended well
        self._claimed = 0
        self._commit_log = checkpoint
        self._workers = [TransactionalIds(f"{self.cluster.new_process():x}") for _ in range(2)]
        self.late_attempt_of: tuple[int, int] | None = None  # (batch, task): its first attempt is given up...
        self.late: Iterator[None] | None = None  # ...and is still there
        self.failing: tuple[int, int] | None = None  # (batch, task)
        self._program = self._run(batches)
        self.failure: Exception | None = None
        self.ended = False

    def step(self) -> None:
        """Do the next thing; afterwards `ended` may be true."""
        try:
            next(self._program)
        except StopIteration:
            self.ended = True
        except (SinkError, SinkFencedError) as error:
            self.failure, self.ended = error, True

    def run(self) -> None:
        while not self.ended:
            self.step()

    # -- Spark ------------------------------------------------------------------------------------------

    def _run(self, batches: int) -> Iterator[None]:
        for number in range(batches):
            if number not in self._commit_log:
                try:
                    yield from self._batch(number)
                except (SinkError, SinkFencedError):
                    yield from self._perform(protocol.abort(self._owner, *self._known()))
                    raise
                self._commit_log.add(number)
                yield

    def _known(self) -> tuple[str, tuple[TaskTransaction, ...]]:
        """Results of completed tasks for the abort of a batch."""
        return (self.name if self._parts else "", tuple(self._parts))

    def _batch(self, number: int) -> Iterator[None]:
        ticket = yield from self._perform(protocol.plan(self._owner))
        parts: list[TaskTransaction] = []
        self._parts = parts
        rows: list[str] = []
        if not ticket.has(self._query, number):
            for task in range(2):
                if (number, task) == self.late_attempt_of:
                    self.late = self._task(number, task, ticket.run, [], [], TransactionalIds("1a7e"))
                yield from self._task(number, task, ticket.run, parts, rows, self._workers[0])
        batch = Batch(number, self._query, ticket.run, tuple(parts), tuple(rows), start=self.name)
        yield from self._perform(protocol.commit(batch))
        if self._tidies or self.late is not None:
            yield from self._perform(protocol.tidy(ticket.run))

    def _task(
        self,
        number: int,
        task: int,
        run: int,
        parts: list[TaskTransaction],
        rows: list[str],
        worker: TransactionalIds,
    ) -> Iterator[None]:
        written = rows_of(number, task, self._query)
        if self._inline and task == 0:
            rows += written
            return
        if self._inline and number % 2:
            rows += written  # every other batch: all tasks hand their rows over
            return
        place = (SINK, run, self.name, number)
        part = self.cluster.begin(worker.take(*place))
        yield
        self.cluster.produce(part, written[:1])
        yield
        if (number, task) == self.failing:
            raise SinkError("a row cannot be written")
        self.cluster.produce(part, written[1:])
        worker.keep(part.transactional_id, *place)
        parts.append(part)
        yield

    # -- the steps of the protocol ------------------------------------------------------------------------

    def _perform(self, program: protocol.Steps[Any]) -> Generator[None, None, Any]:
        answer: Any = None
        error: Exception | None = None
        while True:
            try:
                step = program.throw(error) if error else program.send(answer)
            except StopIteration as end:
                return end.value
            yield
            answer, error = None, None
            if isinstance(step, protocol.CommitParts | protocol.Abort):
                answer = yield from self._one_by_one(step)
                continue
            try:
                answer = getattr(self, f"_{type(step).__name__.lower()}")(step)
            except SinkFencedError as fenced:
                error = fenced

    def _one_by_one(self, step: protocol.CommitParts | protocol.Abort) -> Generator[None, None, Any]:
        """EndTxn of several transactions is several requests: one may die between two of them."""
        if isinstance(step, protocol.Abort):
            for name in step.transactional_ids:
                self.cluster.begin(name)
                yield
            return None
        outcomes = []
        for part in step.parts:
            outcomes.append(self.cluster.end(part))
            yield
        return outcomes

    def _claimsink(self, step: protocol.ClaimSink) -> None:
        if step.fresh or not self._claimed:
            self.cluster.claims += 1
            self._claimed = self.cluster.claims

    def _read(self, step: protocol.Read) -> SinkState:
        return self.cluster.states[-1]

    def _readunclaimed(self, step: protocol.ReadUnclaimed) -> tuple[SinkState, bool]:
        return self.cluster.states[-1], True

    def _write(self, step: protocol.Write) -> None:
        if self._claimed != self.cluster.claims:
            raise SinkFencedError
        assert step.state is not None  # no sink is forgotten here
        self.cluster.states.append(step.state)
        self.cluster.topic += step.rows

    def _checkparts(self, step: protocol.CheckParts) -> list[SinkTransactionResult]:
        return [self.cluster.check(part) for part in step.parts]

    def _open(self, step: protocol.Open) -> list[tuple[str, int]]:
        found = [(name, run_of(SINK, name)) for name in self.cluster.open_transactions()]
        return [(name, run) for name, run in found if run is not None]

    def _storebatch(self, step: protocol.StoreBatch) -> TaskTransaction:
        place = (SINK, step.batch.run, step.batch.start, step.batch.number)
        part = self.cluster.begin(self._workers[1].take(*place))
        self.cluster.produce(part, list(step.batch.rows))
        self._workers[1].keep(part.transactional_id, *place)
        return part


def rows_of(batch: int, task: int, query: str) -> list[str]:
    return [f"{batch}-{task}-{row}" + ("" if query == QUERY else f" of {query}") for row in range(2)]


def expected_rows(batches: int, query: str = QUERY) -> list[str]:
    return sorted(
        row for number in range(batches) for task in range(2) for row in rows_of(number, task, query)
    )


MakeDriver = Callable[[str], Driver]
