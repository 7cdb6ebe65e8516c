"""Real clients with `group.protocol=consumer` (KIP-848), alone and together with classic members."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.groups.consumer import targets
from barnabas.testing import EmbeddedBroker
from tests.clients.test_groups_java import JavaConsumer, concatenated, groups
from tests.support.brokers import BrokerProcess
from tests.support.consumers import ConfluentWorker, ConsumerProtocolWorker, Load, Processed, Worker
from tests.support.kafka.tools import run_tool
from tests.support.waiting import until

PARTITIONS = 6
ALL = set(range(PARTITIONS))
# Members settle within heartbeats: seconds here instead of minutes with the defaults.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "100",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings=SETTINGS) as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    return broker.create_topic(partitions=PARTITIONS)


def shared_out(workers: list[Any]) -> bool:
    """Every partition has exactly one owner, and every member has some."""
    owned = [worker.assigned for worker in workers]
    return all(owned) and sum(map(len, owned)) == PARTITIONS and set().union(*owned) == ALL


def test_nothing_is_lost_or_done_twice_while_members_come_and_go(broker: EmbeddedBroker, topic: str) -> None:
    processed = Processed()
    load = Load(broker.bootstrap_servers, topic, PARTITIONS)

    def start() -> ConsumerProtocolWorker:
        return ConsumerProtocolWorker(broker.bootstrap_servers, topic, "moving", processed)

    workers = [start()]
    until(lambda: shared_out(workers), "the first member has everything")
    workers += [start(), start()]
    until(lambda: shared_out(workers), "three members share the partitions")
    workers.pop(0).leave()
    until(lambda: shared_out(workers), "two members share the partitions")
    workers.append(start())
    until(lambda: shared_out(workers), "three members share the partitions again")
    sent = load.stop()
    until(lambda: processed.includes(sent), f"all {len(sent)} records are processed")
    for worker in workers:
        worker.leave()
    assert processed.repeated == 0


def test_stepwise_assignment_has_the_same_result(
    broker: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a large group: members learn a new target some heartbeats later."""
    monkeypatch.setattr(targets, "LARGE", 0)
    test_nothing_is_lost_or_done_twice_while_members_come_and_go(broker, topic)


def test_unaffected_members_keep_their_assignment(broker: EmbeddedBroker, topic: str) -> None:
    """Partitions move directly between members; unaffected ones are not revoked."""
    processed = Processed()
    workers = [ConsumerProtocolWorker(broker.bootstrap_servers, topic, "sticky", processed) for _ in range(2)]
    until(lambda: shared_out(workers), "two members share the partitions")
    before = [set(worker.assigned) for worker in workers]
    third = ConsumerProtocolWorker(broker.bootstrap_servers, topic, "sticky", processed)
    until(lambda: shared_out([*workers, third]), "three members share the partitions")
    assert all(worker.assigned < had for worker, had in zip(workers, before, strict=True))
    third.leave()
    for worker in workers:
        worker.leave()


def test_bouncing_static_member_causes_no_rebalance(broker: EmbeddedBroker, topic: str) -> None:
    processed = Processed()
    load = Load(broker.bootstrap_servers, topic, PARTITIONS)

    def start(instance: str) -> ConsumerProtocolWorker:
        settings = {"group.instance.id": instance}
        return ConsumerProtocolWorker(broker.bootstrap_servers, topic, "static", processed, **settings)

    stays, bounces = start("stays"), start("bounces")
    until(lambda: shared_out([stays, bounces]), "two static members share the partitions")
    before, own = stays.rebalances, set(bounces.assigned)
    bounces.leave()
    bounces = start("bounces")
    until(lambda: bounces.assigned == own, "the member is back with its partitions")
    sent = load.stop()
    until(lambda: processed.includes(sent), "all records are processed")
    assert stays.rebalances == before
    stays.leave()
    bounces.leave()


def test_pattern_includes_topics_created_later(broker: EmbeddedBroker) -> None:
    processed = Processed()
    worker = ConsumerProtocolWorker(broker.bootstrap_servers, "^pattern-.*", "pattern", processed)
    load = Load(
        broker.bootstrap_servers, broker.create_topic("pattern-one", partitions=PARTITIONS), PARTITIONS
    )
    until(lambda: worker.assigned == ALL, "the pattern is resolved")
    sent = load.stop()
    until(lambda: processed.includes(sent), "all records are processed")
    worker.leave()
    assert set(processed.counts) == sent


def test_a_group_changes_its_protocol_and_back_under_load(broker: EmbeddedBroker, topic: str) -> None:
    processed = Processed()
    load = Load(broker.bootstrap_servers, topic, PARTITIONS)

    def old() -> Worker:
        strategy = {"partition.assignment.strategy": "range"}
        return ConfluentWorker(broker.bootstrap_servers, topic, "both", processed, **strategy)

    def new() -> Worker:
        return ConsumerProtocolWorker(broker.bootstrap_servers, topic, "both", processed)

    workers = [old(), old()]
    until(lambda: shared_out(workers), "a classic group is stable")
    assert kind_of(broker, "both") == "classic"
    workers.append(new())
    until(lambda: shared_out(workers), "members of both protocols share the partitions", 60)
    assert kind_of(broker, "both") == "consumer"
    workers.pop(0).leave()
    workers.pop(0).leave()
    until(lambda: shared_out(workers), "the new member is alone")
    workers.append(old())
    until(lambda: shared_out(workers), "a classic member joins a consumer group", 60)
    workers.pop(0).leave()
    until(lambda: shared_out(workers), "the last new member has left", 60)
    assert kind_of(broker, "both") == "classic"
    sent = load.stop()
    until(lambda: processed.includes(sent), "all records are processed")
    for worker in workers:
        worker.leave()


def kind_of(broker: EmbeddedBroker, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})  # it must outlive its answer
    listed = admin.list_consumer_groups().result(60)
    assert not listed.errors, listed.errors
    kinds: dict[str, str] = {one.group_id: one.type.name.lower() for one in listed.valid}
    return kinds[group]


def test_group_continues_after_kill_9_of_the_broker(tmp_path: Path) -> None:
    settings = [f"{name}={value}" for name, value in SETTINGS.items()]
    with BrokerProcess(tmp_path, "num.partitions=6", *settings) as process:
        processed = Processed()
        load = Load(process.bootstrap_servers, "orders", PARTITIONS)
        until(lambda: len(load.acknowledged) > 100, "the topic is there")
        workers = [
            ConsumerProtocolWorker(process.bootstrap_servers, "orders", "group", processed) for _ in range(2)
        ]
        until(lambda: shared_out(workers), "two members share the partitions")
        before = [set(worker.assigned) for worker in workers]
        process.kill()
        process.start()
        seen = len(processed)
        until(lambda: len(processed) > seen + 200, "the work goes on")
        sent = load.stop()
        until(lambda: processed.includes(sent), "all records are processed")
        assert [worker.assigned for worker in workers] == before, "a restart moves nothing"
        for worker in workers:
            worker.leave()


@pytest.mark.java
def test_java_consumers_and_tools_use_consumer_groups(broker: EmbeddedBroker, topic: str) -> None:
    bootstrap = broker.bootstrap_servers
    processed = Processed()
    load = Load(bootstrap, topic, PARTITIONS, per_second=500)
    protocol = ("--group-protocol", "consumer")
    consumers = [JavaConsumer(bootstrap, topic, "java", processed, *protocol) for _ in range(2)]
    until(lambda: shared_out(consumers), "two Java consumers share the partitions", 60)
    state = groups(bootstrap, "--describe", "--group", "java", "--state", "--verbose")
    assert re.search(r"java\s+127.0.0.1:\d+\s+\(1\)\s+uniform\s+Stable\s+\d+\s+\d+\s+2", state), state
    members = groups(bootstrap, "--describe", "--group", "java", "--members", "--verbose")
    assert len(re.findall(rf"java\s+\S+\s+/127.0.0.1\s+\S+\s+3\s+.*{topic}:", members)) == 2, members
    assert re.search(r"java\s+Consumer", groups(bootstrap, "--list", "--type", "consumer"))
    consumers.pop(0).leave()
    until(lambda: shared_out(consumers), "the other one has everything", 60)
    sent = load.stop()
    until(lambda: processed.includes(sent), "all records are processed")
    consumers.pop().leave()
    assert "successful" in groups(bootstrap, "--delete", "--group", "java")


@pytest.mark.java
def test_kafka_dump_log_reads_the_records_of_consumer_groups(tmp_path: Path) -> None:
    with EmbeddedBroker(settings={**SETTINGS, "log.dirs": str(tmp_path)}) as broker:
        topic = broker.create_topic("orders", partitions=PARTITIONS)
        processed = Processed()
        workers = [
            ConsumerProtocolWorker(broker.bootstrap_servers, name, "dumped", processed)
            for name in (topic, "^or.*")
        ]
        until(lambda: shared_out(workers), "two members share the partitions")
        for worker in workers:
            worker.leave()
    logs = [path for path in tmp_path.glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    assert len(logs) == 1
    dumped = run_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(logs[0])
    ).check()
    keys = [document for document in concatenated(dumped.stdout) if "type" in document]
    found = {key["type"] for key in keys}
    assert {"3", "5", "6", "7", "8", "16"} <= {str(one) for one in found}, dumped.stdout[:2000]
