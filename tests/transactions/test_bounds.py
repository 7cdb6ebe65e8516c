"""Limits of open transactions without a timeout, in total and per application."""

from __future__ import annotations

import pytest

from barnabas.common.errors import KafkaError
from barnabas.spark.sink.state import task_id
from barnabas.transactions.bounds import TransactionLimits, check_room, prefix_of
from barnabas.transactions.transaction import NO_TIMEOUT_MS
from tests.transactions.journal import TIMEOUT_MS, TP, Journal


@pytest.mark.parametrize(
    ("transactional_id", "prefix"),
    [
        ("payments", "payments"),
        ("payments-1", "payments"),
        ("to-the.lake-12-ab3.4", "to-the.lake"),
        ("7", "7"),
        ("", ""),
        (task_id("my-sink", 3, "a0.17"), "my-sink"),
    ],
)
def test_the_prefix_of_an_id_is_its_application(transactional_id: str, prefix: str) -> None:
    assert prefix_of(transactional_id) == prefix


def opened(*names: str, timeout_ms: int = NO_TIMEOUT_MS) -> Journal:
    journal = Journal()
    for name in names:
        journal.initialize(name=name, timeout_ms=timeout_ms)
        journal.add(TP, name=name)
    return journal


def refusal(journal: Journal, name: str, bounds: TransactionLimits) -> str | None:
    try:
        check_room([journal.shard], name, bounds)
    except KafkaError as error:
        return str(error)
    return None


def test_there_is_a_bound_in_all_and_one_for_each_prefix() -> None:
    journal = opened("a-1", "a-2", "b-1")
    assert refusal(journal, "c-1", TransactionLimits(9, 4, 2)) is None
    refused = refusal(journal, "a-3", TransactionLimits(9, 4, 2)) or ""
    assert "begin with 'a'" in refused
    assert "POLICY_VIOLATION" in refused
    assert "barnabas.transactions.without.timeout.max=3" in (
        refusal(journal, "c-1", TransactionLimits(9, 3, 2)) or ""
    )


def test_only_open_transactions_without_a_timeout_count() -> None:
    assert len(opened("a-1", "a-2", timeout_ms=TIMEOUT_MS).shard.without_timeout) == 0
    journal = opened("a-1", "a-2")
    journal.end(True, name="a-1")
    assert [one.transactional_id for one in journal.shard.without_timeout] == ["a-2"]
    assert journal.shard.without_timeout.of_prefix("a") == 1
    assert len(journal.reloaded().without_timeout) == 1  # and it is known again after a restart
