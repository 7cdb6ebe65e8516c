"""Consumers, share groups and searches by time read remote segments, over real sockets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.records.batch import iterate_headers
from barnabas.replication.tiered_reads import RemoteLimits
from barnabas.testing import EmbeddedBroker
from barnabas.testing.objects import Fault
from barnabas.tiering.objects import segment_build
from barnabas.tiering.reading import RemoteLog
from tests.handlers.tiered_broker import HandMadeTiers
from tests.share.test_with_clients import set_group
from tests.support.clients import RawConnection
from tests.support.waiting import until

TIMEOUT = 60
RECORDS = 2000
FETCH_VERSION = 12  # the last one that names topics


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def tiers(broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HandMadeTiers]:
    monkeypatch.setattr(segment_build, "CHUNK_BYTES", 20_000)
    made = HandMadeTiers(broker, tmp_path)
    yield made
    made.close()


def produce(broker: EmbeddedBroker, topic: str, first: int, last: int, partitions: int = 1) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 20})
    for number in range(first, last):
        producer.produce(
            topic, f"{number} " + "x" * 50, partition=number % partitions, timestamp=1000 + number
        )
    assert producer.flush(TIMEOUT) == 0


def consume(
    broker: EmbeddedBroker, topic: str, count: int, partitions: int = 1, **settings: str
) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "auto.offset.reset": "error",
            "enable.partition.eof": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    taken: list[int] = []
    while len(taken) < count:
        records = consumer.consume(count, timeout=TIMEOUT)
        assert records, f"nothing came after {len(taken)} records"
        for record in records:
            assert record.error() is None
            taken.append(int((record.value() or b"").split()[0]))
    consumer.close()
    return taken


def fetch(
    broker: EmbeddedBroker, topic: str, offset: int, max_wait_ms: int = 0, **fields: Any
) -> PartitionData:
    wanted = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1
    )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        session_epoch=-1,
        **fields,
    )
    with RawConnection(broker.port) as connection:
        answer = connection.ask(request, FETCH_VERSION)
    assert isinstance(answer, FetchResponse)
    return answer.responses[0].partitions[0]


def test_a_consumer_reads_remote_records_and_then_local_ones(
    broker: EmbeddedBroker, tiers: HandMadeTiers
) -> None:
    topic = broker.create_topic()
    produce(broker, topic, 0, RECORDS)
    assert tiers.move(topic) == RECORDS
    produce(broker, topic, RECORDS, RECORDS + 100)
    assert consume(broker, topic, RECORDS + 100) == list(range(RECORDS + 100))
    assert tiers.cache.misses > 0
    counters = broker.broker.replicas.by_name[topic][0].counters
    assert counters.remote_bytes_out.value > 50 * RECORDS


def test_remote_read_is_looked_up_once(
    broker: EmbeddedBroker, tiers: HandMadeTiers, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.create_topic()
    produce(broker, topic, 0, 100)
    tiers.move(topic)
    lookups: list[str] = []
    for name in ("find", "load"):
        original = getattr(RemoteLog, name)

        def counted(remote: RemoteLog, offset: int, name: str = name, original: Any = original) -> Any:
            lookups.append(name)
            return original(remote, offset)

        monkeypatch.setattr(RemoteLog, name, counted)
    counters = broker.broker.replicas.by_name[topic][0].counters
    for expected in (["find", "load"], ["find"]):  # downloaded, then in memory
        before = counters.remote_fetches.value
        assert fetch(broker, topic, 0).records
        assert (lookups, counters.remote_fetches.value - before) == (expected, 1)
        lookups.clear()


def test_a_consumer_reads_remote_records_over_tls(tmp_path: Path) -> None:
    with EmbeddedBroker(security="SSL") as broker:
        tiers = HandMadeTiers(broker, tmp_path)
        topic = broker.create_topic()
        producer = Producer(broker.clients.confluent)
        for number in range(RECORDS):
            producer.produce(topic, f"{number} " + "x" * 50)
        assert producer.flush(TIMEOUT) == 0
        tiers.move(topic)
        secured = {name.replace(".", "_"): value for name, value in broker.clients.confluent.items()}
        assert consume(broker, topic, RECORDS, **secured) == list(range(RECORDS))
        tiers.close()


def test_all_partitions_of_a_fetch_are_read(broker: EmbeddedBroker, tiers: HandMadeTiers) -> None:
    topic = broker.create_topic(partitions=8)
    produce(broker, topic, 0, RECORDS, partitions=8)
    for index in range(8):
        tiers.move(topic, index)
    tiers.store.latency = 0.01
    assert sorted(consume(broker, topic, RECORDS, partitions=8)) == list(range(RECORDS))


def test_aborted_records_are_skipped_by_read_committed_readers(
    broker: EmbeddedBroker, tiers: HandMadeTiers
) -> None:
    topic = broker.create_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT)
    kept = []
    for transaction in range(10):
        producer.begin_transaction()
        for number in range(20):
            producer.produce(topic, f"{100 * transaction + number} ")
        assert producer.flush(TIMEOUT) == 0
        if transaction % 3:
            producer.abort_transaction(TIMEOUT)
        else:
            producer.commit_transaction(TIMEOUT)
            kept += [100 * transaction + number for number in range(20)]
    tiers.move(topic)
    assert consume(broker, topic, len(kept), isolation_level="read_committed") == kept
    assert len(consume(broker, topic, 200, isolation_level="read_uncommitted")) == 200


def test_slow_store_gets_an_empty_response_and_the_download_continues(
    broker: EmbeddedBroker, tiers: HandMadeTiers
) -> None:
    topic = broker.create_topic()
    produce(broker, topic, 0, 100)
    tiers.move(topic)
    tiers.limits = RemoteLimits(0.05, 60.0)
    tiers.store.latency = 0.3
    empty = fetch(broker, topic, 0, max_wait_ms=30_000)  # it does not wait for that
    assert empty.records is not None
    assert (empty.error_code, bytes(empty.records)) == (0, b"")
    assert empty.high_watermark == 100
    assert tiers.reads.expired == 1
    until(lambda: fetch(broker, topic, 0).records)
    assert tiers.store.requests == {"get": 1, "get_range": 2}  # no new election


def test_a_session_does_not_forget_a_partition_that_was_answered_empty(
    broker: EmbeddedBroker, tiers: HandMadeTiers
) -> None:
    topic = broker.create_topic(partitions=4)
    produce(broker, topic, 0, 400, partitions=4)
    for index in range(4):
        tiers.move(topic, index)
    tiers.limits = RemoteLimits(0.01, 60.0)
    tiers.store.latency = 0.1
    assert sorted(consume(broker, topic, 400, partitions=4)) == list(range(400))


def test_an_error_of_the_store_is_answered_after_a_while(
    broker: EmbeddedBroker, tiers: HandMadeTiers
) -> None:
    topic = broker.create_topic()
    produce(broker, topic, 0, 100)
    tiers.move(topic)
    tiers.store.fault(Fault.DENY, times=1_000)
    start = time.monotonic()
    answer = fetch(broker, topic, 0)
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert time.monotonic() - start >= 0.5
    tiers.store.heal()
    assert consume(broker, topic, 100) == list(range(100))


def test_offsets_are_out_of_range_only_below_the_log_start(
    broker: EmbeddedBroker, tiers: HandMadeTiers
) -> None:
    topic = broker.create_topic()
    produce(broker, topic, 0, 100)
    tiers.move(topic)
    log = broker.broker.replicas.by_name[topic][0].log
    log.offsets.advance_start(40)
    assert fetch(broker, topic, 39).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    first = fetch(broker, topic, 40)
    assert first.error_code == 0
    assert first.log_start_offset == 40
    headers = [header for _, header in iterate_headers(bytes(first.records or b""))]
    assert headers[0].base_offset <= 40 <= headers[0].last_offset


def test_records_are_found_by_time_in_both_tiers(broker: EmbeddedBroker, tiers: HandMadeTiers) -> None:
    topic = broker.create_topic()
    produce(broker, topic, 0, 500)
    tiers.move(topic)
    produce(broker, topic, 500, 600)
    for offset in (0, 7, 499, 500, 599):
        assert list_offset(broker, topic, 1000 + offset).offset == offset
    assert list_offset(broker, topic, 1600).offset == -1


def test_search_by_time_has_a_time_limit(broker: EmbeddedBroker, tiers: HandMadeTiers) -> None:
    topic = broker.create_topic()
    produce(broker, topic, 0, 100)
    tiers.move(topic)
    tiers.store.latency = 5
    late = list_offset(broker, topic, 1050, timeout_ms=50)
    assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
    tiers.limits = RemoteLimits(60.0, 0.05)
    assert list_offset(broker, topic, 1050).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert list_offset(broker, topic, -1).offset == 100


def list_offset(
    broker: EmbeddedBroker, topic: str, timestamp: int, timeout_ms: int = 0
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])], timeout_ms=timeout_ms
    )
    with RawConnection(broker.port) as connection:
        answer = connection.ask(request, 10)
    assert isinstance(answer, ListOffsetsResponse)
    return answer.topics[0].partitions[0]


def test_a_share_group_reads_remote_records(broker: EmbeddedBroker, tiers: HandMadeTiers) -> None:
    topic = broker.create_topic()
    produce(broker, topic, 0, 300)
    tiers.move(topic)
    tiers.store.latency = 0.01
    group = f"{topic}-crew"
    set_group(broker.bootstrap_servers, group, share_auto_offset_reset="earliest")
    consumer = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "share.acknowledgement.mode": "implicit",
        }
    )
    consumer.subscribe([topic])
    taken: list[int] = []
    deadline = time.monotonic() + TIMEOUT
    while len(taken) < 300:
        assert time.monotonic() < deadline
        taken += [int((record.value() or b"").split()[0]) for record in consumer.poll(1.0) or ()]
    consumer.close()
    assert sorted(taken) == list(range(300))
