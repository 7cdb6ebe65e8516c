"""Broker-only requests: a single node rejects them, a cluster serves them on broker listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.broker import Broker
from barnabas.client.connection import BrokerConnection
from barnabas.common.errors import ErrorCode
from barnabas.handlers.envelope import wrap
from barnabas.handlers.table import HANDLERS
from barnabas.protocol.framing import PEER_CLIENT_ID
from barnabas.protocol.messages import mirror, replication, share_state
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.messages.metadata import ApiVersionsRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.schema import Message, Struct
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.security.context import SELF
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection
from tests.support.clusters import Brokers
from tests.support.waiting import until

TOPIC = "guarded"
TWO_LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}
OF_BROKERS = {
    handler.request_class.api_key: handler for handler in HANDLERS if handler.brokers_only_since is not None
}
IDS = [handler.request_class.NAME for handler in OF_BROKERS.values()]
DENIED = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}

# Each would change or reveal something if it were served.
QUESTIONS: dict[type[Message], Callable[[Broker], Message]] = {
    replication.AlterPartitionRequest: lambda broker: replication.AlterPartitionRequest(
        broker_id=broker.node_id,
        broker_epoch=broker.broker_epoch,
        topics=[
            replication.AlterPartitionRequestTopicData(
                topic_id=topic_id(broker),
                partitions=[replication.AlterPartitionRequestPartitionData(partition_index=0)],
            )
        ],
    ),
    mirror.SettleMirrorsRequest: lambda broker: mirror.SettleMirrorsRequest(
        broker_id=broker.node_id,
        broker_epoch=broker.broker_epoch,
        topics=[mirror.SettledTopic(topic_id(broker), [mirror.SettledPartition(promoted_at=7)])],
    ),
    replication.BrokerHeartbeatRequest: lambda broker: replication.BrokerHeartbeatRequest(
        broker_id=broker.node_id, broker_epoch=broker.broker_epoch - 1, want_shut_down=True
    ),
    replication.EnvelopeRequest: lambda broker: wrap(
        CreateTopicsRequest([CreatableTopic("in-an-envelope", 1, 1)], 10_000, validate_only=True),
        7,
        SELF,
    ),
    replication.AllocateProducerIdsRequest: lambda broker: replication.AllocateProducerIdsRequest(
        broker_id=broker.node_id, broker_epoch=broker.broker_epoch
    ),
    replication.AssignReplicasToDirsRequest: lambda broker: replication.AssignReplicasToDirsRequest(
        broker_id=broker.node_id,
        broker_epoch=broker.broker_epoch,
        directories=[],
    ),
    AddPartitionsToTxnRequest: lambda broker: AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id="t", topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
            )
        ]
    ),
    share_state.InitializeShareGroupStateRequest: lambda broker: of_shares(
        broker,
        share_state.InitializeShareGroupStateRequest,
        share_state.InitializeStateData,
        share_state.InitializeShareGroupStatePartitionData,
    ),
    share_state.ReadShareGroupStateRequest: lambda broker: of_shares(
        broker,
        share_state.ReadShareGroupStateRequest,
        share_state.ReadStateData,
        share_state.ReadShareGroupStatePartitionData,
    ),
    share_state.WriteShareGroupStateRequest: lambda broker: of_shares(
        broker,
        share_state.WriteShareGroupStateRequest,
        share_state.WriteStateData,
        share_state.WriteShareGroupStatePartitionData,
    ),
    share_state.DeleteShareGroupStateRequest: lambda broker: of_shares(
        broker,
        share_state.DeleteShareGroupStateRequest,
        share_state.DeleteStateData,
        share_state.DeleteShareGroupStatePartitionData,
    ),
    share_state.ReadShareGroupStateSummaryRequest: lambda broker: of_shares(
        broker,
        share_state.ReadShareGroupStateSummaryRequest,
        share_state.ReadStateSummaryData,
        share_state.ReadShareGroupStateSummaryPartitionData,
    ),
}


def of_shares(broker: Broker, request: Any, topic: Any, partition: Any) -> Message:
    message: Message = request("g", [topic(topic_id(broker), [partition(0)])])
    return message


def topic_id(broker: Broker) -> bytes:
    return broker.image.topics[TOPIC].topic_id


def errors_in(answer: Struct) -> set[int]:
    """All error codes of a response."""
    found: set[int] = set()
    for field in answer.FIELDS:
        value: Any = getattr(answer, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.add(value)
        elif isinstance(value, list):
            found |= {code for item in value if isinstance(item, Struct) for code in errors_in(item)}
    return found - {ErrorCode.NONE}


def state_of(broker: Broker) -> tuple[Any, ...]:
    """State that a broker's request could change: metadata and all logs."""
    ends = {(partition.topic, partition.index): partition.log.log_end_offset for partition in broker.replicas}
    return broker.image, ends


@pytest.fixture(scope="module")
def alone() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        running.create_topic(TOPIC)
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("cluster"), 2, TWO_LISTENERS) as running:
        create(running.brokers[1].listeners[0].port)
        until(lambda: all(TOPIC in broker.image.topics for broker in running.brokers.values()))
        running.until_in_sync(TOPIC, 2)
        yield running


def create(port: int, name: str = TOPIC) -> None:
    with RawConnection(port) as connection:
        connection.ask(CreateTopicsRequest([CreatableTopic(name, 1, 2)], timeout_ms=30_000), 5)


def ask_every_version(broker: Broker, port: int, api_key: int) -> set[int]:
    handler = OF_BROKERS[api_key]
    first = max(handler.min_version, handler.brokers_only_since or 0)
    request = QUESTIONS[handler.request_class](broker)
    found = set()
    with RawConnection(port, timeout=30) as connection:
        for version in range(first, handler.max_version + 1):
            codes = errors_in(connection.ask(request, version))
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes
            found |= codes
    return found


@pytest.mark.parametrize("api_key", OF_BROKERS, ids=IDS)
def test_a_node_alone_refuses_a_request_of_brokers_and_nothing_changes(
    alone: EmbeddedBroker, api_key: int
) -> None:
    before = state_of(alone.broker)
    assert ask_every_version(alone.broker, alone.port, api_key) == DENIED
    assert state_of(alone.broker) == before


@pytest.mark.parametrize("api_key", OF_BROKERS, ids=IDS)
def test_a_cluster_serves_a_request_of_brokers_only_where_they_listen(cluster: Brokers, api_key: int) -> None:
    broker = cluster.brokers[cluster.controller]
    clients, brokers = broker.listeners
    before = state_of(broker)
    assert ask_every_version(broker, clients.port, api_key) == DENIED
    assert state_of(broker) == before
    assert not ask_every_version(broker, brokers.port, api_key) & DENIED


def fetch_as(broker: Broker, port: int, replica: ReplicaState, version: int, offset: int = 0) -> set[int]:
    wanted = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)]
    request = FetchRequest(topics=[FetchTopic(topic_id=topic_id(broker), topic=TOPIC, partitions=wanted)])
    if version >= 15:
        request.replica_state = replica
    else:
        request.replica_id = replica.replica_id
    with RawConnection(port) as connection:
        return errors_in(connection.ask(request, version))


@pytest.mark.parametrize("version", [4, 14, 15, 18])
def test_cve_2018_1288_single_node_rejects_fetches_as_a_replica(alone: EmbeddedBroker, version: int) -> None:
    broker = alone.broker
    sessions = len(broker.fetch_sessions)
    for epoch in (-1, 0, 1, broker.broker_epoch):
        replica = ReplicaState(broker.node_id, epoch)
        codes = fetch_as(broker, alone.port, replica, version)
        assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}  # as for a Kafka follower without the right
    assert len(broker.fetch_sessions) == sessions


def test_a_replica_fetches_where_brokers_listen_and_names_its_life(cluster: Brokers) -> None:
    broker = cluster.brokers[cluster.state(TOPIC).leader]
    clients, brokers = broker.listeners
    (other,) = cluster.brokers.keys() - {broker.node_id}
    alive = ReplicaState(other, broker.image.brokers[other].epoch)
    assert fetch_as(broker, clients.port, alive, 18) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    for epoch in (-1, alive.replica_epoch - 1, alive.replica_epoch + 1):
        impostor = ReplicaState(other, epoch)
        assert fetch_as(broker, brokers.port, impostor, 18) == {ErrorCode.STALE_BROKER_EPOCH}
    assert fetch_as(broker, brokers.port, alive, 18) == set()


def test_brokers_change_their_listener_one_after_the_other(tmp_path: Path) -> None:
    """Those that were restarted serve the others where these still ask."""
    before = {**TWO_LISTENERS, "inter.broker.listener.name": "CLIENTS"}
    with Brokers(tmp_path, 2, before) as running:
        for settings in (
            {"barnabas.also.inter.broker.listeners": "BROKERS"},
            {
                "inter.broker.listener.name": "BROKERS",
                "barnabas.also.inter.broker.listeners": "CLIENTS",
            },
            {"inter.broker.listener.name": "BROKERS"},
        ):
            for number in (1, 2):
                running.stop(number)
                running.start(number, settings)
                topic = f"topic-{number}-{len(running.any.image.topics)}"
                port = running.brokers[number].listeners[0].port
                create(port, topic)
                until(lambda name=topic: name in running.any.image.topics)  # type: ignore[misc]
                running.until_in_sync(topic, 2)
                leader = running.brokers[running.state(topic).leader]
                assert (
                    produce_to(leader.listeners[0].port, topic, "c", acks=-1) == ErrorCode.NONE
                )  # both have it


def named_apis(port: int) -> dict[int, int]:
    with RawConnection(port) as connection:
        answer: Any = connection.ask(ApiVersionsRequest(), 0)
    return {api.api_key: api.max_version for api in answer.api_keys}


def test_rejected_names_are_not_suggested(alone: EmbeddedBroker, cluster: Brokers) -> None:
    clients, brokers = cluster.brokers[1].listeners
    for port in (alone.port, clients.port):
        named = named_apis(port)
        assert named.keys() & OF_BROKERS.keys() == {24}
        assert named[24] == 3  # AddPartitionsToTxn, as clients send it
    named = named_apis(brokers.port)
    assert named.keys() >= OF_BROKERS.keys()
    assert named[24] == 5


def test_a_client_that_calls_itself_a_broker_is_forwarded_as_any_other(cluster: Brokers) -> None:
    """Before Envelope, a broker's client id marked a forwarded request; it has no meaning now."""
    (bystander,) = cluster.brokers.keys() - {cluster.controller}
    clients, brokers = cluster.brokers[bystander].listeners

    async def create_at(port: int, name: str) -> int:
        connection = await BrokerConnection.connect("127.0.0.1", port, f"{PEER_CLIENT_ID}9")
        answer = await connection.send(
            CreateTopicsRequest([CreatableTopic(name, 1, 1)], timeout_ms=30_000), 5
        )
        connection.close()
        return int(answer.topics[0].error_code)

    assert asyncio.run(create_at(clients.port, "by-a-client")) == ErrorCode.NONE
    assert asyncio.run(create_at(brokers.port, "by-a-peer")) == ErrorCode.NONE


def produce_to(port: int, topic: str, client_id: str, acks: int = 1) -> int:
    batch = build_batch([Record(0, 1_700_000_000_000, b"key", b"value")])
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]

    async def send() -> int:
        connection = await BrokerConnection.connect("127.0.0.1", port, client_id)
        answer = await connection.send(ProduceRequest(None, acks, 2000, data), 9)
        connection.close()
        return int(answer.responses[0].partition_responses[0].error_code)

    return asyncio.run(send())


@pytest.mark.parametrize("client_id", ["anybody", "__admin_client"])
def test_internal_topics_are_read_only_for_every_client_id(alone: EmbeddedBroker, client_id: str) -> None:
    alone.create_topic(
        "__consumer_offsets"
    ) if "__consumer_offsets" not in alone.broker.image.topics else None
    assert produce_to(alone.port, "__consumer_offsets", client_id) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_kafkas_rule_for_internal_topics_can_be_had(tmp_path: Path) -> None:
    with EmbeddedBroker({"barnabas.internal.topics.writable": "true"}, data_dir=tmp_path) as broker:
        broker.create_topic("__consumer_offsets")
        assert produce_to(broker.port, "__consumer_offsets", "anybody") == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert produce_to(broker.port, "__consumer_offsets", "__admin_client") == ErrorCode.NONE


def test_a_client_cannot_take_an_internal_topic_into_its_transaction(alone: EmbeddedBroker) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name="__transaction_state", partitions=[0]),
            AddPartitionsToTxnTopic(name=TOPIC, partitions=[0]),
        ],
    )
    with RawConnection(alone.port) as connection:
        answer: Any = connection.ask(request, 3)
    codes = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in answer.results_by_topic_v3_and_below
    }
    assert codes == {
        "__transaction_state": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        TOPIC: ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
