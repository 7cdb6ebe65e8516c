from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import KafkaException, Producer

from barnabas.client.cluster import Client
from barnabas.client.producing.transactional import TransactionRequests
from barnabas.common.types import TopicPartition
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli


@pytest.fixture
def name(broker: EmbeddedBroker) -> str:
    return f"cli-{broker.create_topic()}"


@pytest.fixture
def hanging(broker: EmbeddedBroker, name: str) -> Producer:
    """A producer that has a transaction open in partition 0 of its topic."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(name.removeprefix("cli-"), b"open", partition=0)
    assert producer.flush(60) == 0
    return producer


def test_open_transactions_are_listed(cli: Cli, name: str, hanging: Producer) -> None:
    listed = cli.ok("transactions", "list", "--state", "Ongoing", "--pattern", name, "-o", "json").json
    assert [(one["id"], one["state"], one["coordinator"]) for one in listed] == [(name, "Ongoing", 1)]
    assert name in cli.ok("transactions", "list").out
    assert "No matching transactions" in cli.ok("transactions", "list", "--state", "PrepareCommit").err
    assert (
        cli.ok("transactions", "list", "--longer-than", "3600", "--state", "Ongoing", "-o", "json").json == []
    )


def test_transactions_without_a_timeout_are_shown_with_their_age(
    cli: Cli, broker: EmbeddedBroker, name: str
) -> None:
    topic = name.removeprefix("cli-")

    async def leave_open() -> None:
        async with Client(broker.bootstrap_servers) as client:
            transactions = TransactionRequests(client)
            identity = await transactions.initialize(name, without_timeout=True)
            await transactions.add_partitions(name, identity, [TopicPartition(topic, 0)])

    asyncio.run(leave_open())
    (shown,) = cli.ok("transactions", "list", "--pattern", name, "-o", "json").json
    assert (shown["state"], shown["two_phase"], shown["timeout_ms"]) == ("Ongoing", True, None)
    assert 0 <= shown["open_ms"] < 600_000
    facts = cli.ok("transactions", "describe", name, "-o", "json").json
    assert (facts["two_phase"], facts["timeout_ms"]) == (True, None)
    metrics = broker.broker.metrics.snapshot()
    assert metrics["barnabas_transactions_without_timeout"] == 1
    assert metrics["barnabas_transactions_without_timeout_oldest_seconds"] < 600
    cli.ok("transactions", "abort", name, "--yes")
    assert broker.broker.metrics.snapshot()["barnabas_transactions_without_timeout"] == 0


def test_a_transaction_is_described(cli: Cli, name: str, hanging: Producer) -> None:
    facts = cli.ok("transactions", "describe", name, "-o", "json").json
    assert (facts["state"], facts["epoch"]) == ("Ongoing", 0)
    assert facts["partitions"] == [f"{name.removeprefix('cli-')}-0"]
    assert "partitions:" in cli.ok("transactions", "describe", name).out


def test_unknown_id_gets_an_error(cli: Cli) -> None:
    ended = cli("transactions", "describe", "nobody")
    assert ended.code != 0
    assert "TRANSACTIONAL_ID_NOT_FOUND" in ended.err


def test_aborting_an_id_shuts_out_its_producer(cli: Cli, name: str, hanging: Producer) -> None:
    assert "shut out" in cli.ok("transactions", "abort", name, "--yes").err
    facts = cli.ok("transactions", "describe", name, "-o", "json").json
    assert (facts["state"], facts["partitions"]) == ("Empty", [])
    with pytest.raises(KafkaException):
        hanging.commit_transaction(10)


def test_a_transaction_that_hangs_in_a_partition_is_aborted(cli: Cli, name: str, hanging: Producer) -> None:
    place = ("--topic", name.removeprefix("cli-"), "--partition", "0", "--start-offset")
    assert cli("transactions", "abort", *place, "17", "--yes").code != 0
    aborted = cli.ok("transactions", "abort", *place, "0", "--yes", "-o", "json").json
    assert aborted["partition"] == 0
    assert cli("transactions", "abort", *place, "0", "--yes").code != 0  # transaction ended


def test_abort_requires_a_target(cli: Cli) -> None:
    assert cli("transactions", "abort", "--yes").code == 2
