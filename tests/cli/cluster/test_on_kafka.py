"""`barnabas cluster` with two Apache Kafka brokers: Barnabas plans, Kafka moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.kafka.broker import ApacheKafka
from tests.support.programs import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    folder = tmp_path_factory.mktemp("kafka-cluster")
    with ExitStack() as stack:
        brokers = [stack.enter_context(broker) for broker in two_brokers(folder)]
        cli = Cli(",".join(broker.bootstrap_servers for broker in brokers))
        until(lambda: len(cli.ok("cluster", "status", "-o", "json").json["brokers"]) == 2)
        yield cli


def two_brokers(folder: Path) -> list[ApacheKafka]:
    """The first is the controller, too."""
    first, second, controller = free_port(), free_port(), free_port()
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{controller}"}
    both = f"PLAINTEXT://127.0.0.1:{first},CONTROLLER://127.0.0.1:{controller}"
    alone = {"process.roles": "broker", "node.id": "2", "listeners": f"PLAINTEXT://127.0.0.1:{second}"}
    return [
        ApacheKafka(folder / "1", first, heap="256m", settings={"listeners": both, **voters}),
        ApacheKafka(folder / "2", second, heap="256m", settings={**alone, **voters}),
    ]


def leaders(cli: Cli, topic: str) -> Counter[int]:
    described = cli.ok("topics", "describe", topic, "-o", "json").json
    return Counter(partition["leader"] for partition in described[0]["partitions"])


def test_partitions_are_moved_drained_and_balanced(cli: Cli) -> None:
    cli.ok("topics", "create", "orders", "--partitions", "4", "--replication-factor", "1")
    cli.ok("produce", "orders", "--key-separator", ":", stdin="".join(f"{n}:record {n}\n" for n in range(40)))
    drained = cli.ok("cluster", "drain", "2", "--yes")
    assert "has no replicas left" in drained.err
    assert leaders(cli, "orders") == {1: 4}
    assert len(cli.ok("cluster", "rebalance", "-o", "json").json["moves"]) == 2
    cli.ok("cluster", "rebalance", "--yes")
    until(lambda: leaders(cli, "orders") == {1: 2, 2: 2})
    cli.ok("cluster", "move", "orders", "--to", "1,2", "--yes")
    status = cli.ok("cluster", "status", "-o", "json").json
    assert [broker["replicas"] for broker in status["brokers"]] == [4, 4]
    assert (status["offline"], status["reassignments"]) == ([], [])
    until(lambda: leaders(cli, "orders") == {1: 2, 2: 2})
    records = cli.ok("consume", "orders", "--from", "beginning", "--exit-at-end").out.splitlines()
    assert sorted(records) == sorted(f"record {n}" for n in range(40))
