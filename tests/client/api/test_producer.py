"""The public producer, blocking and for asyncio, against Barnabas and Apache Kafka."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa
import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from barnabas import (
    Admin,
    AsyncProducer,
    BufferFullError,
    Consumer,
    ConsumerRecord,
    DeliveryError,
    Producer,
    ProducerFencedError,
    ProducerRecord,
    TopicPartition,
    TransactionError,
)
from barnabas.testing import EmbeddedBroker
from tests.support.programs import free_port

NewName = Callable[[], str]


def records_in(
    bootstrap: str, topic: str, count: int, isolation: str = "read_committed"
) -> list[ConsumerRecord]:
    with Consumer(
        bootstrap,
        topics=topic,
        auto_offset_reset="earliest",
        isolation_level="read_committed" if isolation == "read_committed" else "read_uncommitted",
    ) as consumer:
        found: list[ConsumerRecord] = []
        while len(found) < count:
            found += consumer.poll(30)
        return found


def created(bootstrap: str, topic: str, partitions: int = 1) -> str:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=partitions)
    return topic


def test_a_record_keeps_key_headers_and_timestamp(bootstrap: str, new_name: NewName) -> None:
    topic, moment = created(bootstrap, new_name()), datetime(2026, 11, 19, tzinfo=UTC)
    with Producer(bootstrap, compression_type="zstd") as producer:
        delivery = producer.send(topic, "value", "key", headers={"trace": b"1"}, timestamp=moment)
        found = delivery.result(30)
        assert delivery.done
        assert delivery.result() == found
    assert (found.topic, found.partition, found.offset) == (topic, 0, 0)
    (record,) = records_in(bootstrap, topic, 1)
    assert (record.key, record.value, record.headers) == (b"key", b"value", (("trace", b"1"),))
    assert record.timestamp == found.timestamp == int(moment.timestamp() * 1000)


def test_keys_go_to_the_partitions_of_kafkas_clients(bootstrap: str, new_name: NewName) -> None:
    topic = created(bootstrap, new_name(), 5)
    with Producer(bootstrap) as producer:
        for number in range(40):
            producer.send(topic, b"%d" % number, b"key-%d" % number)
    consumer = ConfluentConsumer(
        {"bootstrap.servers": bootstrap, "group.id": new_name(), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: dict[bytes, int] = {}
    while len(found) < 40:
        for message in consumer.consume(40, 1):
            found[message.key() or b""] = message.partition() or 0
    consumer.close()
    with Producer(bootstrap, partitioner=lambda topic, key, count: found[key or b""]) as producer:
        for key, partition in found.items():
            assert producer.send(topic, b"again", key).result().partition == partition


def test_a_batch_of_values_records_or_arrow_rows(everywhere: str, new_name: NewName) -> None:
    topic = created(everywhere, new_name())
    with Producer(everywhere) as producer:
        first = producer.send_batch(topic, [b"a", ProducerRecord(b"b", key=b"k")])
        rows = pa.table({"value": pa.array([b"c", b"d"], pa.binary()), "key": ["1", None]})
        second = producer.send_batch(topic, rows)
        third = producer.send_batch(topic, [b"e"])
    assert [(each[0].first_offset, each[0].record_count) for each in (first, second, third)] == [
        (0, 2),
        (2, 2),
        (4, 1),
    ]
    found = records_in(everywhere, topic, 5)
    assert [record.value for record in found] == [b"a", b"b", b"c", b"d", b"e"]
    assert [record.key for record in found] == [None, b"k", b"1", None, None]


@pytest.mark.parametrize("acks", ["all", "0"])
def test_a_long_list_comes_back_as_a_few_runs(
    embedded: EmbeddedBroker, new_name: NewName, acks: Literal["all", "0"]
) -> None:
    bootstrap = embedded.bootstrap_servers
    topic = created(bootstrap, new_name(), partitions=3)
    values = [b"%d" % number * 50 for number in range(5000)]
    with Producer(bootstrap, acks=acks, batch_size=20_000) as producer:
        runs = producer.send_batch(topic, values)
    assert sum(run.record_count for run in runs) == len(values)
    assert (acks == "0") == all(run.first_offset < 0 for run in runs)
    found = records_in(bootstrap, topic, len(values))
    assert sorted(record.value for record in found) == sorted(values)
    if acks == "all":
        positions = {
            (run.partition, run.first_offset + index) for run in runs for index in range(run.record_count)
        }
        assert positions == {(record.partition, record.offset) for record in found}


def test_partitioner_is_called_for_every_record(embedded: EmbeddedBroker, new_name: NewName) -> None:
    topic, wanted = created(embedded.bootstrap_servers, new_name(), partitions=3), [None, 2]
    with Producer(embedded.bootstrap_servers, partitioner=lambda *_: wanted[0]) as producer:
        producer.send(topic, b"anywhere")
        wanted.reverse()
        deliveries = [producer.send(topic, b"there") for _ in range(20)]
    assert {delivery.result(30).partition for delivery in deliveries} == {2}


def test_a_partitioner_is_asked_once_for_a_record_that_waits_for_room(
    embedded: EmbeddedBroker, new_name: NewName
) -> None:
    topic, asked = created(embedded.bootstrap_servers, new_name(), partitions=3), itertools.count()
    with Producer(
        embedded.bootstrap_servers, partitioner=lambda *_: next(asked) % 3, buffer_memory=4096, linger_ms=0
    ) as producer:
        deliveries = [producer.send(topic, b"x" * 1000) for _ in range(60)]
    assert next(asked) == 60
    assert [delivery.result(30).partition for delivery in deliveries] == [0, 1, 2] * 20


def test_values_go_on_after_a_failed_batch(embedded: EmbeddedBroker, new_name: NewName) -> None:
    topic = created(embedded.bootstrap_servers, new_name())
    with Producer(embedded.bootstrap_servers, linger_ms=60_000, transactional_id=new_name()) as producer:
        producer.begin_transaction()
        lost = [producer.send(topic, b"lost") for _ in range(3)]
        producer.abort_transaction()
        for delivery in lost:
            with pytest.raises(DeliveryError):
                delivery.result(30)
        with producer.transaction():
            kept = [producer.send(topic, b"kept") for _ in range(3)]
        assert [delivery.result(30).partition for delivery in kept] == [0, 0, 0]
    assert [record.value for record in records_in(embedded.bootstrap_servers, topic, 3)] == [b"kept"] * 3


def test_asyncio_has_the_same_operations(bootstrap: str, new_name: NewName) -> None:
    topic = created(bootstrap, new_name())

    async def main() -> None:
        async with AsyncProducer(bootstrap, transactional_id=new_name()) as producer:
            async with producer.transaction():
                delivery = await producer.send(topic, b"a")
                assert (await delivery).offset == 0
                assert delivery.done
            with pytest.raises(ZeroDivisionError):  # noqa: PT012  # leaves the block that aborts
                async with producer.transaction():
                    await producer.send(topic, b"aborted")
                    await producer.flush()
                    raise ZeroDivisionError
            async with producer.transaction():
                assert (await producer.send_batch(topic, [b"b"]))[0].record_count == 1

    asyncio.run(main())
    assert [record.value for record in records_in(bootstrap, topic, 2)] == [b"a", b"b"]


def test_a_transaction_commits_records_and_offsets_together(everywhere: str, new_name: NewName) -> None:
    source, target, group = created(everywhere, new_name()), created(everywhere, new_name()), new_name()
    with Producer(everywhere) as producer:
        producer.send_batch(source, [b"%d" % number for number in range(10)])
    with (
        Consumer(
            everywhere, topics=source, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer,
        Producer(everywhere, transactional_id=new_name()) as producer,
    ):
        records = consumer.poll(30, max_records=4)
        while len(records) < 4:
            records += consumer.poll(30, max_records=4 - len(records))
        with pytest.raises(ZeroDivisionError), producer.transaction():  # noqa: PT012  # as above
            producer.send(target, b"aborted")
            producer.send_offsets(consumer.positions(), consumer.group_metadata())
            raise ZeroDivisionError
        with producer.transaction():
            for record in records:
                producer.send(target, record.value)
            producer.send_offsets(consumer.positions(), consumer.group_metadata())
        assert consumer.committed()[TopicPartition(source, 0)].offset == 4
    assert [record.value for record in records_in(everywhere, target, 4)] == [b"0", b"1", b"2", b"3"]


def test_a_newer_producer_fences_the_older_one(everywhere: str, new_name: NewName) -> None:
    topic, transactional_id = created(everywhere, new_name()), new_name()
    with (
        Producer(everywhere, transactional_id=transactional_id) as older,
        Producer(everywhere, transactional_id=transactional_id) as newer,
    ):
        older.begin_transaction()
        older.send(topic, b"aborted").result(30)
        with newer.transaction():
            newer.send(topic, b"newer")
        with pytest.raises(ProducerFencedError, match="another producer has taken"):
            older.commit_transaction()
        with pytest.raises(ProducerFencedError):
            older.send(topic, b"late")
    assert [record.value for record in records_in(everywhere, topic, 1)] == [b"newer"]


def test_a_transactional_producer_refuses_records_outside_a_transaction(embedded: EmbeddedBroker) -> None:
    outside = Producer(embedded.bootstrap_servers, transactional_id="outside")
    with outside as producer, pytest.raises(TransactionError, match=r"with producer\.transaction"):
        producer.send("any", b"value")
    with (
        Producer(embedded.bootstrap_servers) as producer,
        pytest.raises(ValueError, match="transactional_id"),
    ):
        producer.begin_transaction()


def test_a_record_that_the_topic_does_not_take_is_a_delivery_error(bootstrap: str, new_name: NewName) -> None:
    topic = new_name()
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=1, configs={"max.message.bytes": "1000"})
    with Producer(bootstrap) as producer:
        delivery = producer.send(topic, b"x" * 2000)
        with pytest.raises(DeliveryError, match=f"{topic}-0 did not take the record") as caught:
            delivery.result(30)
        assert not caught.value.is_retriable
        assert producer.send(topic, b"small").result(30).offset == 0
        with pytest.raises(Exception, match=r"larger|too large|TOO_LARGE"):
            producer.flush()


def test_a_full_buffer_blocks_and_then_fails(embedded: EmbeddedBroker) -> None:
    topic = created(embedded.bootstrap_servers, "full")
    with EmbeddedBroker(port=free_port()) as broker:
        created(broker.bootstrap_servers, topic)
        producer = Producer(broker.bootstrap_servers, buffer_memory=10_000, max_block_ms=200, linger_ms=0)
        producer.send(topic, b"x").result(30)
    with pytest.raises(BufferFullError, match="raise buffer_memory or max_block_ms"):  # noqa: PT012
        for _ in range(3):
            producer.send(topic, b"x" * 5000)
    assert producer.buffered_bytes <= 10_000
    producer.close(flush=False)


def test_threads_share_a_producer(embedded: EmbeddedBroker) -> None:
    topic = created(embedded.bootstrap_servers, "threads", 3)
    with Producer(embedded.bootstrap_servers) as producer:

        def send() -> None:
            for _ in range(500):
                producer.send(topic, b"x")

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(records_in(embedded.bootstrap_servers, topic, 2000)) == 2000


FORKING = """
import os, sys
from barnabas import Producer
servers, topic = sys.argv[1:]
producer = Producer(servers)
producer.send(topic, b"parent").result(30)
child = os.fork()
if child == 0:
    try:
        producer.send(topic, b"inherited")
    except RuntimeError as error:
        assert "create another one in the child process" in str(error)
        with Producer(servers) as own:
            own.send(topic, b"child")
        os._exit(0)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
producer.send(topic, b"after").result(30)
producer.close()
"""


def test_a_forked_child_needs_a_client_of_its_own(embedded: EmbeddedBroker) -> None:
    topic = created(embedded.bootstrap_servers, "forked")
    program = [sys.executable, "-c", FORKING, embedded.bootstrap_servers, topic]
    subprocess.run(program, check=True, timeout=60)
    found = records_in(embedded.bootstrap_servers, topic, 3)
    assert [record.value for record in found] == [b"parent", b"child", b"after"]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"bootstrap_server": "x"}, TypeError, "unexpected keyword argument 'bootstrap_server'"),
        ({"linger": 5}, TypeError, "did you mean `linger_ms`"),
        ({"acks": "most"}, ValueError, 'acks must be "all", 1 or 0'),
        ({"acks": 1, "enable_idempotence": True}, ValueError, 'enable_idempotence needs acks="all"'),
        ({"acks": 0, "transactional_id": "x"}, ValueError, "transactional_id needs"),
        ({"linger_ms": "soon"}, TypeError, "linger_ms must be a number, not 'soon'"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"compression_type": "brotli"}, ValueError, "compression_type must be one of"),
        ({"value_serializer": "json"}, TypeError, "value_serializer must be a function"),
        ({"value_schema": "latest"}, ValueError, "needs schema_registry_url"),
    ],
)
def test_a_wrong_option_is_refused_with_a_hint(
    options: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Producer("127.0.0.1:9092", **options)  # type: ignore[arg-type]  # wrong on purpose


def test_kafkas_dotted_names_are_a_config(embedded: EmbeddedBroker) -> None:
    config = {
        "bootstrap.servers": embedded.bootstrap_servers,
        "linger.ms": "1",
        "enable.idempotence": "false",
    }
    with Producer(config=config) as producer:
        assert producer.send("dotted", b"x").result(30).offset == 0
    with pytest.raises(TypeError, match="did you mean `linger_ms`"):
        Producer(config={"linger": 1})
    with (
        pytest.raises(TypeError, match="a value must be bytes, str or None, not dict"),
        Producer() as producer,
    ):
        producer.send("any", {"a": 1})
