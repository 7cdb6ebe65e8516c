"""Members that join, leave, bounce and crash under load: no record is skipped, few are repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from barnabas.testing import EmbeddedBroker
from tests.support.brokers import BrokerProcess
from tests.support.consumers import (
    AiokafkaWorker,
    ConfluentWorker,
    KafkaPythonWorker,
    Load,
    Processed,
    Worker,
)
from tests.support.waiting import until

PARTITIONS = 6
ALL = set(range(PARTITIONS))
NewWorker = Callable[..., Worker]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    return broker.create_topic(partitions=PARTITIONS)


def shared_out(workers: list[Worker]) -> bool:
    """Every partition has exactly one owner, and every member has some."""
    owned = [worker.assigned for worker in workers]
    return all(owned) and sum(map(len, owned)) == PARTITIONS and set().union(*owned) == ALL


MAKES: dict[str, NewWorker] = {
    "confluent-eager": partial(ConfluentWorker, partition_assignment_strategy="range"),
    "confluent-cooperative": partial(ConfluentWorker, partition_assignment_strategy="cooperative-sticky"),
    "kafka-python": KafkaPythonWorker,
    "aiokafka": AiokafkaWorker,
}


@pytest.mark.parametrize("make", MAKES)
def test_nothing_is_skipped_while_members_come_and_go(broker: EmbeddedBroker, topic: str, make: str) -> None:
    new = MAKES[make]
    processed = Processed()
    load = Load(broker.bootstrap_servers, topic, PARTITIONS)
    workers = [new(broker.bootstrap_servers, topic, make, processed)]
    until(lambda: shared_out(workers), "the first member has everything")
    workers += [new(broker.bootstrap_servers, topic, make, processed) for _ in range(2)]
    until(lambda: shared_out(workers), "three members share the partitions")
    workers.pop(0).leave()
    until(lambda: shared_out(workers), "two members share the partitions")
    workers.append(new(broker.bootstrap_servers, topic, make, processed))
    until(lambda: shared_out(workers), "three members share the partitions again")
    sent = load.stop()
    until(lambda: processed.includes(sent), f"all {len(sent)} records are processed")
    for worker in workers:
        worker.leave()
    assert processed.repeated < len(sent) / 2, "at least once is not a licence to start over"


def test_clients_of_all_makes_share_one_group(broker: EmbeddedBroker, topic: str) -> None:
    processed = Processed()
    load = Load(broker.bootstrap_servers, topic, PARTITIONS)
    makes: list[NewWorker] = [
        partial(ConfluentWorker, partition_assignment_strategy="range"),
        KafkaPythonWorker,
    ]
    workers: list[Worker] = [make(broker.bootstrap_servers, topic, "mixed", processed) for make in makes]
    ranges = (RangePartitionAssignor,)  # by default, aiokafka has no assignor in common with the others
    workers.append(
        AiokafkaWorker(
            broker.bootstrap_servers, topic, "mixed", processed, partition_assignment_strategy=ranges
        )
    )
    until(lambda: shared_out(workers), "three makes share the partitions")
    sent = load.stop()
    until(lambda: processed.includes(sent), "all records are processed")
    for worker in workers:
        worker.leave()
    assert set(processed.counts) == sent


def test_bouncing_static_member_causes_no_rebalance(broker: EmbeddedBroker, topic: str) -> None:
    processed = Processed()
    load = Load(broker.bootstrap_servers, topic, PARTITIONS)

    def start(instance: str) -> ConfluentWorker:
        return ConfluentWorker(
            broker.bootstrap_servers, topic, "static", processed, **{"group.instance.id": instance}
        )

    stays, bounces = start("stays"), start("bounces")
    until(lambda: shared_out([stays, bounces]), "two static members share the partitions")
    before, own = stays.rebalances, set(bounces.assigned)
    for _ in range(3):
        bounces.leave()  # a static member does not leave the group when it stops
        bounces = start("bounces")
        until(lambda: bounces.assigned == own, "the member is back with its partitions")  # noqa: B023
    sent = load.stop()
    until(lambda: processed.includes(sent), "all records are processed")
    assert stays.rebalances == before
    stays.leave()
    bounces.leave()


@pytest.mark.parametrize(
    "strategy", ["cooperative-sticky", pytest.param("range", marks=pytest.mark.extended)]
)
def test_group_continues_after_kill_9_of_the_broker(tmp_path: Path, strategy: str) -> None:
    with BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=0", "num.partitions=6") as process:
        processed = Processed()
        load = Load(process.bootstrap_servers, "orders", PARTITIONS)
        settings: dict[str, Any] = {"partition.assignment.strategy": strategy}
        until(lambda: len(load.acknowledged) > 100, "the topic is there")
        workers: list[Worker] = [
            ConfluentWorker(process.bootstrap_servers, "orders", "group", processed, **settings)
            for _ in range(2)
        ]
        until(lambda: shared_out(workers), "two members share the partitions")
        for _ in range(2):
            process.kill()
            process.start()
            seen = len(processed)
            until(lambda: len(processed) > seen + 200, "the work goes on")  # noqa: B023
        sent = load.stop()
        until(lambda: processed.includes(sent), "all records are processed")
        assert shared_out(workers)
        for worker in workers:
            worker.leave()


def test_committed_offsets_survive_kill_9(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=0", "num.partitions=6") as process:
        processed = Processed()
        load = Load(process.bootstrap_servers, "orders", PARTITIONS)
        worker: Worker = ConfluentWorker(process.bootstrap_servers, "orders", "group", processed)
        until(lambda: len(processed) > 500, "some records are processed")
        sent = load.stop()
        until(lambda: processed.includes(sent), "all records are processed")
        worker.leave()
        process.kill()
        process.start()
        again = Processed()
        worker = ConfluentWorker(process.bootstrap_servers, "orders", "group", again)
        until(lambda: worker.assigned == ALL, "the group starts again")
        load = Load(process.bootstrap_servers, "orders", PARTITIONS)
        until(lambda: len(again) > 100, "new records are processed")
        more = load.stop()
        until(lambda: again.includes(more), "all new records are processed")
        worker.leave()
        assert again.counts.keys().isdisjoint(processed.counts), "what was committed is not read again"
