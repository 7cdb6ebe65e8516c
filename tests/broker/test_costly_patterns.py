"""Patterns and settings from clients that would take Python's `re` minutes or days."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.metadata import ApiVersionsRequest
from barnabas.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.transactions import InitProducerIdRequest, ListTransactionsRequest
from tests.support.server import ask, raw_broker, scenario

LONG_ID = "a" * 60
MAX_SECONDS = 5.0  # of a processor: it takes milliseconds; before, half a minute to days


@scenario
async def test_pattern_with_repeated_alternatives_does_not_block(tmp_path: Path) -> None:
    async with raw_broker(tmp_path) as broker:
        client, other = await broker.connect(), await broker.connect()
        begin = InitProducerIdRequest(transactional_id=LONG_ID, transaction_timeout_ms=60_000)
        assert (await broker.coordinator_answers(client, begin, 4, LONG_ID, 1)).error_code == 0
        started = time.process_time()
        listing = ask(client, ListTransactionsRequest(transactional_id_pattern="(a|aa)*b"), 2)
        nothing, _ = await asyncio.gather(listing, ask(other, ApiVersionsRequest(), 0))
        all_of_them = await ask(client, ListTransactionsRequest(transactional_id_pattern="(a|aa)*"), 2)
        assert time.process_time() - started < MAX_SECONDS
    assert (nothing.error_code, nothing.transaction_states) == (0, [])
    assert [state.transactional_id for state in all_of_them.transaction_states] == [LONG_ID]


@scenario
async def test_pattern_unsupported_by_re2_is_an_invalid_regular_expression(tmp_path: Path) -> None:
    async with raw_broker(tmp_path) as broker:
        client = await broker.connect()
        for pattern in (r"(a)\1", "(?=a)", "(", "x" * 5000):
            answer = await ask(client, ListTransactionsRequest(transactional_id_pattern=pattern), 2)
            assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min.cleanable.dirty.ratio", "9" * 32_000 + "x"),
        ("cleanup.policy", "delete" + "\t" * 32_000 + "delete"),
        ("retention.ms", "9" * 32_000),
        ("x" * 32_000, "1"),
    ],
)
def test_a_hostile_value_of_a_setting_is_refused_at_once(tmp_path: Path, name: str, value: str) -> None:
    @scenario
    async def create() -> None:
        topic = CreatableTopic("t", 1, 1, configs=[CreatableTopicConfig(name, value)])
        async with raw_broker(tmp_path) as broker:
            client = await broker.connect()
            started = time.process_time()
            answer = await ask(client, CreateTopicsRequest(topics=[topic]), 5)
            assert time.process_time() - started < MAX_SECONDS
        assert answer.topics[0].error_code == ErrorCode.INVALID_CONFIG

    create()
