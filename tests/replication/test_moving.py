"""Partitions, leaders, coordinators and the controller move while clients run; requests find the controller."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.broker import lifecycle as registration
from barnabas.broker.broker import Broker
from barnabas.client.connection import BrokerConnection
from barnabas.cluster.membership import BrokerInfo
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.cluster import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from barnabas.protocol.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.schema import Message
from tests.replication.test_brokers import Writing, assert_replicas_are_equal, create, read_all
from tests.support.clusters import Brokers
from tests.support.kafka.tools import run_tool
from tests.support.waiting import until

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    # Small fetches, so that a throttle has something to hold back.
    with Brokers(tmp_path, 4, {"replica.fetch.max.bytes": "20000"}) as running:
        yield running


def ask(brokers: Brokers, number: int, message: Message) -> Any:
    async def send() -> Any:
        listener = brokers.brokers[number].listeners[0]
        connection = await BrokerConnection.connect("127.0.0.1", listener.port)
        try:
            return await connection.send(message)
        finally:
            connection.close()

    return brokers.run(send())


def not_the_controller(brokers: Brokers) -> int:
    return next(number for number in brokers.brokers if number != brokers.controller)


def move(brokers: Brokers, topic: str, replicas: list[int] | None) -> int:
    wanted = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000, topics=[ReassignableTopic(name=topic, partitions=[wanted])]
    )
    response = ask(brokers, not_the_controller(brokers), request)
    return int(response.error_code or response.responses[0].partitions[0].error_code)


def has_log(broker: Broker, topic: str) -> bool:
    return broker.replicas.find(topic, 0) is not None


def test_a_partition_moves_to_other_brokers_while_it_is_written(brokers: Brokers) -> None:
    create(brokers, "orders")
    writing = Writing(brokers, "orders")
    writing.write_more(brokers)
    before = brokers.state("orders").replicas
    spare = next(number for number in brokers.brokers if number not in before)
    target = [spare, *before[1:]]
    assert move(brokers, "orders", target) == ErrorCode.NONE
    until(lambda: list(brokers.state("orders").replicas) == target, "the replicas do not move")
    until(lambda: not brokers.state("orders").being_reassigned)
    until(lambda: not has_log(brokers.brokers[before[0]], "orders"), "the old replica stays")
    writing.write_more(brokers)
    writing.finish()
    brokers.until_in_sync("orders", 3)
    assert [int(value) for value in read_all(brokers, "orders")] == sorted(writing.acknowledged)
    removed = brokers.brokers.pop(before[0])
    assert_replicas_are_equal(brokers, "orders")
    brokers.brokers[before[0]] = removed


def test_a_move_to_a_broker_that_is_down_can_be_called_off(brokers: Brokers) -> None:
    create(brokers, "orders")
    before = brokers.state("orders").replicas
    spare = next(number for number in brokers.brokers if number not in before)
    brokers.kill(spare)
    until(lambda: brokers.any.image.brokers[spare].fenced, "the dead broker is not fenced")
    assert move(brokers, "orders", [spare, *before[1:]]) == ErrorCode.NONE
    until(lambda: brokers.state("orders").being_reassigned)
    listed = ask(brokers, not_the_controller(brokers), ListPartitionReassignmentsRequest(timeout_ms=1000))
    assert [topic.name for topic in listed.topics] == ["orders"]
    assert move(brokers, "orders", None) == ErrorCode.NONE
    until(lambda: not brokers.state("orders").being_reassigned)
    assert set(brokers.state("orders").replicas) == set(before)


def test_preferred_leader_is_elected_on_request(brokers: Brokers) -> None:
    create(brokers, "orders")
    preferred = brokers.state("orders").leader
    brokers.kill(preferred)
    until(lambda: brokers.state("orders").leader not in (preferred, -1), "nobody takes over")
    brokers.start(preferred)
    brokers.until_in_sync("orders", 3)
    request = ElectLeadersRequest(
        election_type=0, topic_partitions=[TopicPartitions("orders", [0])], timeout_ms=5000
    )
    response = ask(brokers, not_the_controller(brokers), request)
    assert response.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
    until(lambda: brokers.state("orders").leader == preferred)


def test_a_setting_changed_through_any_broker_reaches_all(brokers: Brokers) -> None:
    create(brokers, "orders", min_isr=1)
    config = IncrementalAlterConfigsAlterableConfig(name="min.insync.replicas", config_operation=0, value="3")
    resource = IncrementalAlterConfigsAlterConfigsResource(TOPIC_RESOURCE, "orders", [config])
    response = ask(brokers, not_the_controller(brokers), IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == ErrorCode.NONE

    def known() -> bool:
        found = [broker.replicas.find("orders", 0) for broker in brokers.brokers.values()]
        return all(partition.log.config.min_insync_replicas == 3 for partition in found if partition)

    until(known, "the setting does not arrive")


def test_group_continues_when_its_coordinator_dies(brokers: Brokers) -> None:
    create(brokers, "orders")
    group = f"group-{uuid.uuid4()}"
    consumer = Consumer(
        {
            "bootstrap.servers": brokers.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
        }
    )
    consumer.subscribe(["orders"])
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "all"})
    try:
        values: list[bytes] = []
        for number in range(20):
            producer.produce("orders", str(number).encode())
        assert producer.flush(60) == 0
        until(lambda: _consume(consumer, values) >= 20, "nothing is consumed")
        consumer.commit(asynchronous=False)
        brokers.until_in_sync("__consumer_offsets", 3)
        brokers.kill(_coordinator(brokers, group))
        for number in range(20, 40):
            producer.produce("orders", str(number).encode())
        assert producer.flush(60) == 0
        until(lambda: _consume(consumer, values) >= 40, "the group does not go on")
        consumer.commit(asynchronous=False)
        assert [int(value) for value in values] == list(range(40))
    finally:
        consumer.close()


def _consume(consumer: Consumer, values: list[bytes]) -> int:
    message = consumer.poll(0.2)
    if message is not None and not message.error():
        values.append(message.value() or b"")
    return len(values)


def _coordinator(brokers: Brokers, group: str) -> int:
    from barnabas.protocol.internal_topics import partition_for

    partitions = brokers.any.image.topics["__consumer_offsets"].partitions
    return partitions[partition_for(group, len(partitions))].leader


def test_a_broker_cut_off_from_the_coordinator_is_replaced_and_comes_back(brokers: Brokers) -> None:
    create(brokers, "orders")
    writing = Writing(brokers, "orders")
    writing.write_more(brokers)
    leader = brokers.state("orders").leader

    async def on_loop(action: Any) -> None:
        action()

    brokers.run(on_loop(brokers.sessions[leader].cut))
    others = {number: broker for number, broker in brokers.brokers.items() if number != leader}
    other = next(iter(others.values()))

    def replaced() -> bool:
        state = other.image.partition("orders", 0)
        return state is not None and state.leader not in (leader, -1)

    until(replaced, "nobody takes over")
    until(lambda: brokers.brokers[leader].is_fenced, "the broker does not notice")
    writing.write_more(brokers)
    brokers.run(on_loop(brokers.sessions[leader].heal))
    until(lambda: not brokers.brokers[leader].is_fenced, "the broker does not come back")
    brokers.until_in_sync("orders", 3)
    writing.finish()
    assert [int(value) for value in read_all(brokers, "orders")] == sorted(writing.acknowledged)


def test_broker_that_stays_fenced_logs_it_and_keeps_asking(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    number = not_the_controller(brokers)
    broker, session = brokers.brokers[number], brokers.sessions[number]
    join, refusals = broker._membership.join, ["another process has broker id 2"] * 2
    monkeypatch.setattr(registration, "REFUSED_SECONDS", 0.2)

    async def refused_twice(info: BrokerInfo) -> int:
        if refusals:
            raise RuntimeError(refusals.pop())
        return await join(info)

    async def on_loop(action: Any) -> None:
        action()

    monkeypatch.setattr(broker._membership, "join", refused_twice)
    brokers.run(on_loop(session.cut))
    until(lambda: broker.is_fenced, "the broker does not notice")
    brokers.run(on_loop(session.heal))
    until(lambda: broker.refusal is not None, "nobody says that it is refused")
    healthy, details = broker.monitoring.health()
    assert (healthy, details["fenced"]) == (False, True)
    assert details["refused"] == "another process has broker id 2"
    until(lambda: not broker.is_fenced, "the broker does not come back")
    assert broker.monitoring.health()[0]
    assert "cannot rejoin its cluster" in caplog.text


def test_a_throttled_move_takes_its_time_and_a_lifted_throttle_ends_that(brokers: Brokers) -> None:
    create(brokers, "orders", min_isr=1)
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "all", "batch.size": 10_000})
    for number in range(200):
        producer.produce("orders", str(number).encode() * 500)
        producer.poll(0)
    assert producer.flush(60) == 0
    before = brokers.state("orders").replicas
    spare = next(number for number in brokers.brokers if number not in before)
    throttle(brokers, spare, "1000")
    assert move(brokers, "orders", [*before[:2], spare]) == ErrorCode.NONE
    until(lambda: has_log(brokers.brokers[spare], "orders"), "the new replica is not created")
    log = brokers.brokers[spare].replicas.by_name["orders"][0].log
    assert brokers.state("orders").being_reassigned
    assert log.log_end_offset < 200
    throttle(brokers, spare, "1000000000")
    until(lambda: not brokers.state("orders").being_reassigned, "the move does not end")
    assert log.log_end_offset == 200


def test_leaders_throttle_the_replicas_that_kafkas_tool_configures(brokers: Brokers, tmp_path: Path) -> None:
    """It lists the replicas that exist as leaders to be throttled, and the new one as follower."""
    create(brokers, "orders", min_isr=1)
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "all", "batch.size": 10_000})
    for number in range(200):
        producer.produce("orders", str(number).encode() * 500)
    assert producer.flush(60) == 0
    before = brokers.state("orders").replicas
    spare = next(number for number in brokers.brokers if number not in before)
    plan = tmp_path / "plan.json"
    moved = {"topic": "orders", "partition": 0, "replicas": [*before[:2], spare]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))

    def reassign(*args: str) -> str:
        servers = ("--bootstrap-server", brokers.bootstrap_servers, "--reassignment-json-file", str(plan))
        return run_tool(REASSIGN, *servers, *args).check().stdout

    reassign("--execute", "--throttle", "1000")
    throttle(brokers, spare, "1000000000")  # so that only the leader holds it back
    until(lambda: has_log(brokers.brokers[spare], "orders"), "the new replica is not created")
    leader = brokers.brokers[brokers.state("orders").leader]
    until(lambda: leader.leader_throttle.is_exceeded, "the leader does not hold anything back")
    log = brokers.brokers[spare].replicas.by_name["orders"][0].log
    assert log.log_end_offset < 200
    assert brokers.state("orders").being_reassigned
    reassign("--execute", "--additional", "--throttle", "1000000000")
    until(lambda: not brokers.state("orders").being_reassigned, "the move does not end")
    assert log.log_end_offset == 200
    assert "Clearing topic-level throttles" in reassign("--verify")
    until(lambda: not log.config.follower_replication_throttled_replicas, "a throttle is left")


def throttle(brokers: Brokers, broker: int, rate: str) -> None:
    setting = "follower.replication.throttled."
    resources = [
        IncrementalAlterConfigsAlterConfigsResource(
            TOPIC_RESOURCE,
            "orders",
            [IncrementalAlterConfigsAlterableConfig(f"{setting}replicas", 0, f"0:{broker}")],
        ),
        IncrementalAlterConfigsAlterConfigsResource(
            BROKER_RESOURCE,
            str(broker),
            [IncrementalAlterConfigsAlterableConfig(f"{setting}rate", 0, rate)],
        ),
    ]
    response = ask(brokers, broker, IncrementalAlterConfigsRequest(resources=resources))
    assert [answer.error_code for answer in response.responses] == [0, 0]
    until(lambda: brokers.brokers[broker].follower_throttles.listed.rate == int(rate), "no throttle")
