"""The state of a sink is read to its end, even from a newly elected leader."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barnabas.client import compacted_table as settled_table
from barnabas.client.cluster import Client
from barnabas.client.fetching import FetchedPartition, fetch
from barnabas.client.offsets import list_offsets_once
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.spark.sink.driver import TOPIC_PARTITION, Ledger, SinkDriver
from barnabas.spark.sink.protocol import Batch, commit, plan
from barnabas.testing import EmbeddedBroker


async def decide(client: Client, sink: str, batches: int) -> None:
    driver = SinkDriver(client, sink)
    for number in range(batches):
        ticket = await driver.run(plan("owner"))
        await driver.run(commit(Batch(number, "query", ticket.run)))


def decided_after_restart(
    broker: EmbeddedBroker, sink: str, batches: int, meanwhile: Callable[[], None]
) -> int:
    """The last decision that a driver finds which starts when something has happened to the leader."""

    async def read() -> int:
        async with Client(broker.bootstrap_servers) as client:
            await decide(client, sink, batches)
            meanwhile()
            restarted = Ledger(client, sink)
            await restarted.catch_up()
            return restarted.state.decided

    return asyncio.run(read())


def test_a_leader_whose_high_watermark_lags_hides_no_decision(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def fetch_from_a_new_leader(*arguments: Any) -> list[FetchedPartition]:
        """KIP-207: two answers end before records that were acknowledged."""
        nonlocal asked
        asked += 1
        (answer,) = await fetch(*arguments)
        if asked > 2:
            return [answer]
        return [replace(answer, records=answer.records[:0], high_watermark=answer.fetch_offset)]

    found = decided_after_restart(
        broker, "lagging", 3, lambda: monkeypatch.setattr(settled_table, "fetch", fetch_from_a_new_leader)
    )
    assert found == 2
    assert asked > 2


def test_leader_without_a_known_end_is_asked_again(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [ErrorCode.OFFSET_NOT_AVAILABLE] * 2

    async def refuse_at_first(*arguments: Any) -> Any:
        if refusals:
            raise KafkaError(refusals.pop(), "a new leader does not know yet what is committed")
        return await list_offsets_once(*arguments)

    found = decided_after_restart(
        broker,
        "asked again",
        2,
        lambda: monkeypatch.setattr(settled_table, "list_offsets_once", refuse_at_first),
    )
    assert found == 1
    assert not refusals


def test_ledger_ahead_of_its_topic_starts_over(broker: EmbeddedBroker) -> None:
    """The topic was deleted and recreated."""

    async def read() -> tuple[int, int]:
        async with Client(broker.bootstrap_servers) as client:
            await decide(client, "anew", 1)
            reader = Ledger(client, "anew")
            await reader.catch_up()
            table = reader._table
            end, table._position = table._position, table._position + 1000
            await reader.catch_up()
            assert table._position == end, TOPIC_PARTITION
            return reader.state.decided, end

    assert asyncio.run(read())[0] == 0
