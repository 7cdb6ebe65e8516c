"""Spark's query execution without Spark: a driver process with a checkpoint, and a process per task.

    python -m tests.spark.sink.small_spark BOOTSTRAP TOPIC CHECKPOINT TASKS INLINE [FAULT]

The steps are those of the sink itself; what is left out is what costs Spark its seconds. Ends with 0 when all batches
are in the commit log, and with 1 when a task or a commit failed, as a query of Spark's would.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

from barnabas.client.cluster import Client
from barnabas.client.producing.batch_producer import TransactionalBatchProducer
from barnabas.client.producing.transactional import TransactionRequests
from barnabas.common.types import TopicPartition
from barnabas.records.blocks import block_of
from barnabas.records.record import Record
from barnabas.spark.sink import protocol
from barnabas.spark.sink.driver import SinkDriver, own_names
from barnabas.spark.sink.protocol import Batch, SinkError
from barnabas.spark.sink.state import TaskTransaction
from tests.spark.sink.sabotage import install

QUERY = "query"
BATCHES, ROWS = 2, 20
TIMEOUT_MS = 3_000  # for brokers whose transactions have one


def rows_of(batch: int, task: int) -> list[str]:
    return [f"{batch}-{task}-{row}" for row in range(ROWS)]


def sink_of(topic: str) -> str:
    return f"sink-{topic}"


def blocks_of(topic: str, batch: int, task: int) -> list[Any]:
    now = time.time_ns() // 1_000_000
    return [
        block_of(TopicPartition(topic, index % 2), Record(0, now, None, row.encode()))
        for index, row in enumerate(rows_of(batch, task))
    ]


async def write(bootstrap: str, topic: str, run: int, batch: int, task: int) -> TaskTransaction:
    async with Client(bootstrap) as client:
        transactions, name = TransactionRequests(client), own_names().take(sink_of(topic), run, QUERY, batch)
        identity = await transactions.initialize(name, TIMEOUT_MS, without_timeout=True)
        await TransactionalBatchProducer(transactions, identity, name).send(blocks_of(topic, batch, task))
        return TaskTransaction(name, identity.producer_id, identity.epoch)


def in_a_process(bootstrap: str, topic: str, run: int, batch: int, task: int) -> TaskTransaction | None:
    """None when the task died."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writing, pickle.dumps(asyncio.run(write(bootstrap, topic, run, batch, task))))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return pickle.loads(answer) if answer else None


def run_query(bootstrap: str, topic: str, checkpoint: Path, tasks: int, inline: bool) -> int:
    owner = f"{os.getpid()}/{time.time_ns()}"
    for number in range(BATCHES):
        log = checkpoint / str(number)
        if log.exists():
            continue
        # As in Spark: one process plans, another one commits.
        ticket = asyncio.run(_run(bootstrap, topic, protocol.plan(owner)))
        parts: list[TaskTransaction] = []
        rows: list[Any] = []
        for task in range(tasks) if not ticket.has(QUERY, number) else ():
            if inline and (number == 0 or task == 0):
                rows += blocks_of(topic, number, task)
                continue
            part = in_a_process(bootstrap, topic, ticket.run, number, task)
            if part is None:
                asyncio.run(_run(bootstrap, topic, protocol.abort(owner)))
                return 1
            parts.append(part)
        asyncio.run(
            _run(
                bootstrap, topic, protocol.commit(Batch(number, QUERY, ticket.run, tuple(parts), tuple(rows)))
            )
        )
        log.touch()
    return 0


async def _run(bootstrap: str, topic: str, program: protocol.Steps[Any]) -> Any:
    async with Client(bootstrap) as client:
        return await SinkDriver(client, sink_of(topic)).run(program)


def main(arguments: list[str]) -> int:
    bootstrap, topic, checkpoint, tasks, inline, *fault = arguments
    if fault:
        install(fault[0])
    try:
        return run_query(bootstrap, topic, Path(checkpoint), int(tasks), inline == "inline")
    except SinkError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
