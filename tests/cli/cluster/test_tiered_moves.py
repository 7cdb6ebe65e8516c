"""`barnabas cluster move` of tiered topics copies and reports only local records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.move_sizes import size_of_moves
from barnabas.common.types import TopicPartition
from barnabas.log.log import Log
from tests.replication.test_tiered_replicas import create, log_of, produce, until_tiered
from tests.support.cli import Cli
from tests.support.clusters import Brokers


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    (tmp_path / "bucket").mkdir()
    settings = {
        "remote.log.storage.system.enable": "true",
        "barnabas.remote.storage.url": f"file://{tmp_path}/bucket",
        "remote.log.manager.task.interval.ms": "50",
        "log.retention.check.interval.ms": "100",
    }
    with Brokers(tmp_path, 3, settings) as running:
        yield running


def remote_size(log: Log) -> int:
    assert log.remote is not None
    return log.remote.size_bytes


def test_plan_lists_copied_and_remaining_objects(brokers: Brokers) -> None:
    cli = Cli(brokers.bootstrap_servers)
    create(brokers, "clicks", replicas=1)
    (first,) = brokers.state("clicks").replicas
    produce(brokers, "clicks", 0, 5000)
    until_tiered(brokers, first, "clicks")
    log = log_of(brokers, first, "clicks")
    tail, remote = log.size_bytes, remote_size(log)
    assert tail < 1_100_000 < 4_000_000 < remote
    others = ",".join(str(number) for number in brokers.brokers if number != first)

    output = brokers.run(
        size_of_moves(
            brokers.brokers[first].peers,
            brokers.brokers[first].image,
            {TopicPartition("clicks", 0): tuple(number for number in brokers.brokers if number != first)},
        )
    )
    assert (output.replicas, sum(output.copies.values()), output.remote_bytes, output.unknown) == (
        2,
        2 * tail,
        2 * remote,
        0,
    )
    assert (
        str(output) == f"2 replicas copy {2 * tail:,} bytes; {2 * remote:,} in the object store need no copy"
    )

    plan = cli.ok("cluster", "move", "clicks", "--to", others, "-o", "json").json
    assert (plan["copied_bytes"], plan["remote_bytes"]) == (2 * tail, 2 * remote)
    assert "in the object store stay there" in cli.ok("cluster", "move", "clicks", "--to", others).out
    done = cli.ok("cluster", "move", "clicks", "--to", others, "--yes", "-o", "json").json
    assert done["copied_bytes"] == 2 * tail
    assert tail <= done["arrived_bytes"] <= 2 * tail
