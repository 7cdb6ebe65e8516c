"""Transactional requests, version by version: the exact errors of Kafka, and unchanged state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any, Protocol

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.client.connection import BrokerConnection
from barnabas.common.errors import ErrorCode
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, partition_for
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from barnabas.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TopicRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.broker import ApacheKafka
from tests.support.server import brokers_let_in
from tests.support.waiting import async_eventually, until

E = ErrorCode
V1_PRODUCE, V2_PRODUCE = 11, 12


class Wire:
    """One connection, with defaults for unspecified request fields."""

    def __init__(self, connection: BrokerConnection, topic: str, name: str) -> None:
        self.connection = connection
        self.topic = topic
        self.name = name
        self.producer_id = -1
        self.epoch = -1
        self.sequence = 0

    async def send(self, message: Any, version: int) -> Any:
        """The answer; asked again while Kafka is still getting ready (Barnabas answers when it is)."""
        for _ in range(500):
            answer = await self.connection.send(message, version)
            if not _codes(answer) & {E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_LEADER_OR_FOLLOWER}:
                break
            await asyncio.sleep(0.02)
        return answer

    @property
    def group(self) -> str:
        return f"group-{self.topic}"

    async def find(self, key: str, kind: int) -> None:
        """Wait until there is a coordinator; Kafka requires retries until it has created the topic."""
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
        await async_eventually(
            lambda: self.send(request, 4), lambda answer: not answer.coordinators[0].error_code
        )

    async def init(self, version: int = 4, **fields: Any) -> int:
        fields = {"transactional_id": self.name, "transaction_timeout_ms": 60_000, **fields}
        answer = await self.send(InitProducerIdRequest(**fields), version)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = 0
        return int(answer.error_code)

    async def add(self, *partitions: int, version: int = 3, **fields: Any) -> int:
        names = {
            "v3_and_below_transactional_id": fields.get("name", self.name),
            "v3_and_below_producer_id": fields.get("producer_id", self.producer_id),
            "v3_and_below_producer_epoch": fields.get("epoch", self.epoch),
        }
        topics = [
            AddPartitionsToTxnTopic(name=fields.get("topic", self.topic), partitions=list(partitions or [0]))
        ]
        answer = await self.send(AddPartitionsToTxnRequest(**names, v3_and_below_topics=topics), version)
        results = answer.results_by_topic_v3_and_below[0].results_by_partition
        return int(results[0].partition_error_code)

    async def produce(self, version: int = V1_PRODUCE, partition: int = 0, **fields: Any) -> int:
        sequence = fields.get("sequence", self.sequence)
        batch = build_batch(
            [Record(0, fields.get("timestamp", time_ms()), b"k", fields.get("value", b"v"))],
            producer_id=fields.get("producer_id", self.producer_id),
            producer_epoch=fields.get("epoch", self.epoch),
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        answer = await self.send(
            ProduceRequest(
                transactional_id=fields.get("name", self.name),
                acks=-1,
                timeout_ms=5000,
                topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
            ),
            version,
        )
        code = answer.responses[0].partition_responses[0].error_code
        self.sequence = sequence + 1 if not code else self.sequence
        return int(code)

    async def end(self, committed: bool, version: int = 4, **fields: Any) -> int:
        fields = {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            **fields,
        }
        answer = await self.send(EndTxnRequest(committed=committed, **fields), version)
        if version >= 5 and not answer.error_code:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        await self.settled()
        return int(answer.error_code)

    async def settled(self) -> None:
        """Wait until the markers are written."""
        await async_eventually(self.state, lambda state: not state.transaction_state.startswith("Prepare"))

    async def state(self) -> Any:
        answer = await self.send(DescribeTransactionsRequest(transactional_ids=[self.name]), 0)
        return answer.transaction_states[0]

    async def fetch(self, partition: int = 0) -> Any:
        request = FetchRequest(
            max_wait_ms=0,
            isolation_level=1,
            topics=[FetchTopic(topic=self.topic, partitions=[FetchPartition(partition=partition)])],
        )
        answer = await self.send(request, 11)
        return answer.responses[0].partitions[0]


def time_ms() -> int:
    return time.time_ns() // 1_000_000


def _codes(answer: Any) -> set[int]:
    if isinstance(answer, ProduceResponse):
        return {one.error_code for topic in answer.responses for one in topic.partition_responses}
    return {getattr(answer, "error_code", 0)}


Scenario = Callable[[Wire], Coroutine[Any, Any, None]]


class Target(Protocol):
    """A broker to talk to."""

    port: int

    def create_topic(self) -> str: ...

    def brokers_let_in(self) -> AbstractContextManager[None]: ...


class KafkaTarget:
    def __init__(self, kafka: ApacheKafka) -> None:
        self.port = kafka.port
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        self._numbers = count(1)

    def create_topic(self) -> str:
        name = f"wire-{next(self._numbers)}"
        self._admin.create_topics([NewTopic(name, 2, 1)])[name].result()
        until(lambda: self._is_led(name), f"leaders of {name}")
        return name

    def brokers_let_in(self) -> AbstractContextManager[None]:
        return nullcontext()  # without an authorizer every client may send broker requests

    def _is_led(self, name: str) -> bool:
        topic = self._admin.list_topics(name, 5).topics[name]
        return len(topic.partitions) == 2 and all(one.leader >= 0 for one in topic.partitions.values())


class BarnabasTarget:
    def __init__(self, broker: EmbeddedBroker) -> None:
        self.port = broker.port
        self._broker = broker

    def create_topic(self) -> str:
        return self._broker.create_topic(partitions=2)

    def brokers_let_in(self) -> AbstractContextManager[None]:
        return brokers_let_in(self._broker)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="module", params=["barnabas", pytest.param("kafka", marks=pytest.mark.java)])
def target(request: pytest.FixtureRequest) -> Target:
    """Every test of this module runs against Apache Kafka too: the answers are the same, or the test is wrong."""
    if request.param == "kafka":
        return KafkaTarget(request.getfixturevalue("kafka"))
    return BarnabasTarget(request.getfixturevalue("broker"))


@pytest.fixture
def as_broker(target: Target) -> Iterator[None]:
    """For broker-only requests."""
    with target.brokers_let_in():
        yield


@pytest.fixture
def play(target: Target) -> Callable[[Scenario], None]:
    """Run a scenario on a connection, with a transactional id of the test's own."""

    async def run(scenario: Scenario, topic: str) -> None:
        connection = await BrokerConnection.connect("127.0.0.1", target.port, "wire")
        try:
            wire = Wire(connection, topic, f"id-{topic}")
            await wire.find(wire.name, 1)
            await wire.find(wire.group, 0)
            await scenario(wire)
        finally:
            connection.close()

    return lambda scenario: asyncio.run(run(scenario, target.create_topic()))


def test_init_producer_id_validates_its_arguments(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        assert await wire.init(transactional_id="") == E.INVALID_REQUEST
        assert await wire.init(transaction_timeout_ms=0) == E.INVALID_TRANSACTION_TIMEOUT
        assert await wire.init(transaction_timeout_ms=900_001) == E.INVALID_TRANSACTION_TIMEOUT
        assert await wire.init(producer_id=5) == E.INVALID_REQUEST
        assert await wire.init(producer_epoch=5) == E.INVALID_REQUEST
        for version in range(6):
            assert await wire.init(version) == E.NONE
            assert wire.epoch == version

    play(scenario)


def test_a_recovering_producer_is_fenced_in_the_words_of_its_version(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        old = {"producer_id": wire.producer_id, "producer_epoch": wire.epoch}
        await wire.init()
        assert await wire.init(3, **old) == E.INVALID_PRODUCER_EPOCH
        assert await wire.init(4, **old) == E.PRODUCER_FENCED
        assert await wire.init(4, producer_id=wire.producer_id, producer_epoch=wire.epoch) == E.NONE
        assert wire.epoch == 2

    play(scenario)


def test_fenced_instances_get_the_error_of_their_version(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        await wire.init()
        for version, expected in ((1, E.INVALID_PRODUCER_EPOCH), (2, E.PRODUCER_FENCED)):
            assert await wire.add(version=version, epoch=0) == expected
            assert await wire.end(True, version=version, producer_epoch=0) == expected
            offsets = AddOffsetsToTxnRequest(
                transactional_id=wire.name,
                producer_id=wire.producer_id,
                producer_epoch=0,
                group_id=wire.group,
            )
            assert (await wire.send(offsets, version)).error_code == expected

    play(scenario)


def test_adding_partitions_is_refused_as_a_whole(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        topics = [
            AddPartitionsToTxnTopic(name=wire.topic, partitions=[0, 99]),
            AddPartitionsToTxnTopic(name="nowhere", partitions=[0]),
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=wire.name,
            v3_and_below_producer_id=wire.producer_id,
            v3_and_below_producer_epoch=wire.epoch,
            v3_and_below_topics=topics,
        )
        answer = await wire.send(request, 3)
        assert {
            (topic.name, result.partition_index, result.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        } == {
            (wire.topic, 0, E.OPERATION_NOT_ATTEMPTED),
            (wire.topic, 99, E.UNKNOWN_TOPIC_OR_PARTITION),
            ("nowhere", 0, E.UNKNOWN_TOPIC_OR_PARTITION),
        }
        assert await wire.add(name="") == E.INVALID_REQUEST
        assert await wire.add(name="nobody") == E.INVALID_PRODUCER_ID_MAPPING
        assert await wire.add(producer_id=4242) == E.INVALID_PRODUCER_ID_MAPPING
        assert (await wire.state()).transaction_state == "Empty"

    play(scenario)


@pytest.mark.usefixtures("as_broker")
def test_brokers_add_and_verify_several_transactions_at_once(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        await wire.add(0)

        def question(verify_only: bool, *partitions: int) -> AddPartitionsToTxnTransaction:
            return AddPartitionsToTxnTransaction(
                transactional_id=wire.name,
                producer_id=wire.producer_id,
                producer_epoch=wire.epoch,
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name=wire.topic, partitions=list(partitions))],
            )

        async def ask(*transactions: AddPartitionsToTxnTransaction, version: int = 5) -> Any:
            answer = await wire.send(AddPartitionsToTxnRequest(transactions=list(transactions)), version)
            return {
                one.transactional_id: {
                    result.partition_index: result.partition_error_code
                    for result in one.topic_results[0].results_by_partition
                }
                for one in answer.results_by_transaction
            }

        assert await ask(question(True, 0, 1)) == {wire.name: {0: E.NONE, 1: E.TRANSACTION_ABORTABLE}}
        stranger = AddPartitionsToTxnTransaction(
            transactional_id="nobody", verify_only=True, topics=question(True, 0).topics
        )
        assert await ask(question(False, 1), stranger, version=4) == {
            wire.name: {1: E.NONE},
            "nobody": {0: E.INVALID_PRODUCER_ID_MAPPING},
        }
        assert await ask(question(True, 0, 1)) == {wire.name: {0: E.NONE, 1: E.NONE}}

    play(scenario)


def test_cve_2018_17196_a_batch_outside_of_a_transaction_is_not_appended(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        assert await wire.produce(10) == E.INVALID_TXN_STATE
        assert await wire.produce(11) == E.TRANSACTION_ABORTABLE
        assert await wire.produce(11, name=None) == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await wire.produce(11, name="nobody") == E.INVALID_PRODUCER_ID_MAPPING
        await wire.add(0)
        assert await wire.produce(11, partition=1) == E.TRANSACTION_ABORTABLE
        assert await wire.produce(11, epoch=5) == E.INVALID_PRODUCER_EPOCH
        assert await wire.produce(11) == E.NONE
        assert (await wire.fetch(1)).high_watermark == 0
        assert await wire.end(True) == E.NONE
        assert await wire.produce(11) == E.TRANSACTION_ABORTABLE
        assert (await wire.fetch(0)).high_watermark == 2  # the record and its marker

    play(scenario)


def test_a_batch_of_a_fenced_producer_is_not_appended(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        await wire.add(0)
        await wire.produce()
        assert await wire.init() == E.CONCURRENT_TRANSACTIONS  # the open transaction is aborted first
        await wire.settled()
        assert await wire.init() == E.NONE
        assert wire.epoch == 2
        assert await wire.produce(epoch=0, sequence=1) == E.INVALID_PRODUCER_EPOCH
        assert (await wire.fetch()).last_stable_offset == 2

    play(scenario)


def test_v2_partitions_join_by_being_written_and_every_end_raises_the_epoch(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        for epoch in range(3):
            assert wire.epoch == epoch
            assert await wire.produce(V2_PRODUCE) == E.NONE
            assert await wire.produce(V2_PRODUCE, partition=1, sequence=0) == E.NONE
            before = {"producer_id": wire.producer_id, "producer_epoch": wire.epoch}
            assert [sorted(topic.partitions) for topic in (await wire.state()).topics] == [[0, 1]]
            assert await wire.end(epoch != 1, 5) == E.NONE
            assert await wire.end(epoch != 1, 5, **before) == E.NONE  # sent again
            assert await wire.end(epoch == 1, 5, **before) == E.INVALID_TXN_STATE
        assert await wire.end(True, 5) == E.INVALID_TXN_STATE  # nothing was written
        assert await wire.end(False, 5) == E.NONE  # but it may be aborted
        assert wire.epoch == 4
        assert await wire.produce(V2_PRODUCE, epoch=3) == E.INVALID_PRODUCER_EPOCH
        assert await wire.produce(V2_PRODUCE, sequence=5) == E.OUT_OF_ORDER_SEQUENCE_NUMBER

    play(scenario)


def test_v2_producers_begin_with_sequence_0(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        assert await wire.produce(V2_PRODUCE, sequence=3) == E.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await wire.produce(V2_PRODUCE) == E.NONE

    play(scenario)


def test_v1_ends_may_be_sent_again(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        assert await wire.end(True) == E.INVALID_TXN_STATE
        await wire.add(0)
        assert await wire.end(True) == E.NONE
        assert await wire.end(True) == E.NONE
        assert await wire.end(False) == E.INVALID_TXN_STATE
        assert await wire.end(True, producer_id=4242) == E.INVALID_PRODUCER_ID_MAPPING
        assert await wire.end(True, transactional_id="nobody") == E.INVALID_PRODUCER_ID_MAPPING
        assert await wire.end(True, transactional_id="") == E.INVALID_REQUEST

    play(scenario)


def commit_request(wire: Wire, group: str, offset: int, **fields: Any) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=fields.pop("partition", 0), committed_offset=offset, committed_metadata="note"
    )
    return TxnOffsetCommitRequest(
        transactional_id=wire.name,
        group_id=group,
        producer_id=wire.producer_id,
        producer_epoch=fields.pop("epoch", wire.epoch),
        topics=[TxnOffsetCommitRequestTopic(name=wire.topic, partitions=[partition])],
        **fields,
    )


async def commit(wire: Wire, group: str, offset: int, version: int, **fields: Any) -> int:
    answer = await wire.send(commit_request(wire, group, offset, **fields), version)
    return int(answer.topics[0].partitions[0].error_code)


async def committed(wire: Wire, group: str, *, stable: bool = False) -> tuple[int, int]:
    topics = [OffsetFetchRequestTopics(name=wire.topic, partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable
    )
    answer = (await wire.send(request, 8)).groups[0].topics[0].partitions[0]
    return answer.committed_offset, answer.error_code


@pytest.mark.parametrize("version", [0, 2, 3, 4, 5])
def test_offsets_count_when_the_transaction_commits(play: Callable[[Scenario], None], version: int) -> None:
    async def scenario(wire: Wire) -> None:
        group = wire.group
        await wire.init()
        offsets = AddOffsetsToTxnRequest(transactional_id=wire.name, group_id=group)
        end_version = 5 if version == 5 else 4
        for offset, is_committed, visible in ((10, True, 10), (20, False, 10), (30, True, 30)):
            offsets.producer_id, offsets.producer_epoch = wire.producer_id, wire.epoch
            if version < 5:
                assert await commit(wire, group, offset, version) == (
                    E.TRANSACTION_ABORTABLE if version == 4 else E.INVALID_TXN_STATE
                )
                assert (await wire.send(offsets, 3)).error_code == E.NONE
            before = await committed(wire, group)
            assert await commit(wire, group, offset, version) == E.NONE
            assert (
                await commit(wire, group, offset, version) == E.NONE
            )  # a second batch of the same transaction
            assert await committed(wire, group) == before
            assert await committed(wire, group, stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
            assert await wire.end(is_committed, end_version) == E.NONE
            assert await committed(wire, group, stable=True) == (visible, E.NONE)

    play(scenario)


def test_bad_offset_commits_are_refused(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        group = wire.group
        await wire.init()
        assert await commit(wire, "", 1, 5) == E.INVALID_GROUP_ID
        assert await commit(wire, group, 1, 5, partition=99) == E.UNKNOWN_TOPIC_OR_PARTITION
        assert await commit(wire, group, 1, 5, epoch=9) == E.INVALID_PRODUCER_EPOCH
        assert (
            await commit(wire, group, 1, 5, generation_id_or_member_epoch=3, member_id="x")
            == E.ILLEGAL_GENERATION
        )
        assert (await wire.send(TxnOffsetCommitRequest(group_id=group), 5)).topics == []

    play(scenario)


def markers(wire: Wire, topic: str, partition: int, epoch: int, version: int = 0) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=wire.producer_id,
                producer_epoch=epoch,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
                transaction_version=version,
            )
        ]
    )


async def write_marker(wire: Wire, request: WriteTxnMarkersRequest, version: int = 2) -> int:
    answer = await wire.send(request, version)
    return int(answer.markers[0].topics[0].partitions[0].error_code)


def test_markers_of_administrators_end_hanging_transactions(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        await wire.add(0)
        await wire.produce()
        assert (await wire.fetch()).last_stable_offset == 0
        described = await wire.send(
            DescribeProducersRequest(topics=[TopicRequest(name=wire.topic, partition_indexes=[0, 99])]), 0
        )
        known, missing = described.topics[0].partitions
        assert [one.current_txn_start_offset for one in known.active_producers] == [0]
        assert missing.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        assert await write_marker(wire, markers(wire, wire.topic, 99, 0)) == E.UNKNOWN_TOPIC_OR_PARTITION
        assert (
            await write_marker(wire, markers(wire, wire.topic, 0, 0, version=2)) == E.INVALID_PRODUCER_EPOCH
        )
        assert await write_marker(wire, markers(wire, wire.topic, 0, 0), 1) == E.NONE
        found = await wire.fetch()
        assert found.last_stable_offset == 2
        assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions] == [
            (wire.producer_id, 0)
        ]
        assert (await wire.send(WriteTxnMarkersRequest(), 2)).markers == []

    play(scenario)


def test_markers_of_clients_end_only_hanging_transactions(
    play: Callable[[Scenario], None], target: Target
) -> None:
    """`kafka-transactions abort` needs WriteTxnMarkers. Its other uses would lock producers and coordinators out
    permanently, or commit aborted records."""
    if isinstance(target, KafkaTarget):
        pytest.skip("a rule of ours: Kafka has an authorizer for this, or nothing")

    async def scenario(wire: Wire) -> None:
        await wire.init()
        await wire.add(0)
        assert (
            await write_marker(wire, markers(wire, wire.topic, 0, 0)) == E.INVALID_TXN_STATE
        )  # nothing there
        await wire.produce()
        for epoch in (1, 32767):
            refused = await write_marker(wire, markers(wire, wire.topic, 0, epoch))
            assert refused == E.INVALID_PRODUCER_EPOCH
        commit, usurper = markers(wire, wire.topic, 0, 0), markers(wire, wire.topic, 0, 0)
        commit.markers[0].transaction_result = True
        usurper.markers[0].coordinator_epoch = 2**31 - 1
        for request in (commit, usurper):
            assert await write_marker(wire, request) == E.CLUSTER_AUTHORIZATION_FAILED
        found = await wire.fetch()
        assert (found.last_stable_offset, found.high_watermark) == (0, 1)
        assert await wire.end(True) == E.NONE  # coordinator and producer are still accepted
        assert await write_marker(wire, markers(wire, wire.topic, 0, 0)) == E.INVALID_TXN_STATE
        assert (await wire.fetch()).aborted_transactions == []

    play(scenario)


@pytest.mark.usefixtures("as_broker")
def test_a_v2_marker_may_come_twice(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        await wire.produce(V2_PRODUCE)
        for _ in range(2):
            assert await write_marker(wire, markers(wire, wire.topic, 0, 1, version=2)) == E.NONE
        found = await wire.fetch()
        assert found.last_stable_offset == found.high_watermark

    play(scenario)


async def offsets_partition(wire: Wire) -> int:
    """The partition of `__consumer_offsets` that holds the group's offsets."""
    answer = await wire.send(MetadataRequest(topics=[MetadataRequestTopic(name=CONSUMER_OFFSETS)]), 9)
    return partition_for(wire.group, len(answer.topics[0].partitions))


@pytest.mark.usefixtures("as_broker")
@pytest.mark.parametrize("late_commit", [True, False])
def test_a_late_v2_marker_does_not_end_the_offset_commits_of_the_next_transaction(
    play: Callable[[Scenario], None], late_commit: bool
) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        assert await commit(wire, wire.group, 10, 5) == E.NONE
        late = markers(wire, CONSUMER_OFFSETS, await offsets_partition(wire), wire.epoch + 1, version=2)
        late.markers[0].transaction_result = late_commit
        assert await wire.end(True, 5) == E.NONE
        assert await write_marker(wire, late) == E.NONE  # sent again, and nothing is open
        assert await commit(wire, wire.group, 20, 5) == E.NONE
        assert await write_marker(wire, late) == E.INVALID_PRODUCER_EPOCH
        assert await committed(wire, wire.group) == (10, E.NONE)
        assert await committed(wire, wire.group, stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
        assert await wire.end(not late_commit, 5) == E.NONE
        assert await committed(wire, wire.group, stable=True) == (10 if late_commit else 20, E.NONE)
        assert await write_marker(wire, late) == E.INVALID_PRODUCER_EPOCH  # older than the last transaction

    play(scenario)


@pytest.mark.usefixtures("as_broker")
def test_a_v1_marker_ends_offset_commits_of_its_own_epoch(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        offsets = AddOffsetsToTxnRequest(
            transactional_id=wire.name,
            producer_id=wire.producer_id,
            producer_epoch=wire.epoch,
            group_id=wire.group,
        )
        assert (await wire.send(offsets, 3)).error_code == E.NONE
        assert await commit(wire, wire.group, 10, 3) == E.NONE
        marker = markers(wire, CONSUMER_OFFSETS, await offsets_partition(wire), wire.epoch)
        marker.markers[0].transaction_result = True
        for version in (1, 2):  # as coordinators send it that know no transaction version, and as others do
            assert await write_marker(wire, marker, version) == E.NONE
        assert await committed(wire, wire.group, stable=True) == (10, E.NONE)

    play(scenario)


def test_aborted_transactions_are_listed_by_first_offset(
    play: Callable[[Scenario], None], target: Target
) -> None:
    """Kafka lists them as they ended, and clients other than its own have shown aborted records for it."""
    if isinstance(target, KafkaTarget):
        pytest.skip("a rule of ours")

    async def scenario(wire: Wire) -> None:
        others = [Wire(wire.connection, wire.topic, f"{wire.name}-{number}") for number in range(4)]
        for one in others:
            await one.init()
            await one.produce(V2_PRODUCE)
        for number in (2, 0, 3, 1):  # they end in another order than they begin
            await others[number].end(False, 5)
        aborted = (await wire.fetch()).aborted_transactions
        assert [(one.producer_id, one.first_offset) for one in aborted] == [
            (other_id, offset) for offset, other_id in enumerate(one.producer_id for one in others)
        ]

    play(scenario)


def test_transactions_are_listed_and_described(play: Callable[[Scenario], None]) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        await wire.add(0, 1)

        async def listed(version: int, **filters: Any) -> Any:
            return await wire.send(ListTransactionsRequest(**filters), version)

        own = await listed(2, transactional_id_pattern=wire.name.replace(".", "[.]"))
        assert [
            (one.transactional_id, one.producer_id, one.transaction_state) for one in own.transaction_states
        ] == [(wire.name, wire.producer_id, "Ongoing")]
        bad = await listed(2, transactional_id_pattern="(")
        assert bad.error_code == E.INVALID_REGULAR_EXPRESSION
        long_open = await listed(1, duration_filter=3_600_000, state_filters=["Ongoing"])
        assert long_open.transaction_states == []
        unknown = await listed(0, state_filters=["Nonsense"])
        assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Nonsense"], [])
        state = await wire.state()
        assert (state.error_code, state.transaction_state, state.producer_epoch) == (E.NONE, "Ongoing", 0)
        assert [(topic.topic, sorted(topic.partitions)) for topic in state.topics] == [(wire.topic, [0, 1])]
        wire.name = "nobody"
        assert (await wire.state()).error_code == E.TRANSACTIONAL_ID_NOT_FOUND
        wire.name = ""
        assert (await wire.state()).error_code == E.INVALID_REQUEST

    play(scenario)
