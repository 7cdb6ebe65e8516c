"""The readers against a broker: records read, records skipped, and errors."""

import contextlib
import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadMaxRows, ReadMinRows

from barnabas.spark.errors import DataLossError, SourceError
from barnabas.testing import EmbeddedBroker
from tests.spark.source.readers import Query, Rows, batch_reader, rows_of, stream_reader
from tests.support.spark.reading import NOW, produce


def numbered(count: int, first: int = 0) -> list[bytes | None]:
    return [b"value %d" % index for index in range(first, first + count)]


def values_of(rows: Rows) -> list[bytes | None]:
    return [value for _, _, value in rows]


def delete_records(broker: EmbeddedBroker, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(60)


def recreate(broker: EmbeddedBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_topics([topic]).values():
        future.result(60)
    broker.create_topic(topic)


def read_all(broker: EmbeddedBroker, **options: str) -> Rows:
    reader = batch_reader(broker.bootstrap_servers, **options)
    return rows_of(reader, reader.partitions())


def test_a_topic_is_a_table(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=3)
    for partition in range(3):
        produce(broker.bootstrap_servers, topic, numbered(50, 100 * partition), partition=partition)

    expected = [(p, o, b"value %d" % (100 * p + o)) for p in range(3) for o in range(50)]
    assert read_all(broker, subscribe=topic) == expected


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(broker: EmbeddedBroker, codec: str) -> None:
    topic = broker.create_topic()
    compressed: dict[str, Any] = {"compression.type": codec}
    produce(broker.bootstrap_servers, topic, numbered(500), **compressed)

    assert values_of(read_all(broker, subscribe=topic)) == numbered(500)


def test_offsets_and_timestamps_bound_a_batch(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    produce(broker.bootstrap_servers, topic, numbered(100))

    some = read_all(
        broker, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":20}}}}', endingOffsets="latest"
    )
    assert values_of(some) == numbered(80, 20)
    timed = read_all(broker, subscribe=topic, startingTimestamp=str(NOW + 10), endingTimestamp=str(NOW + 30))
    assert values_of(timed) == numbered(20, 10)
    open_end = read_all(broker, subscribe=topic, endingTimestamp=str(NOW + 10_000))
    assert values_of(open_end) == numbered(100)


def test_a_timestamp_after_every_record_is_an_error_or_the_end(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    produce(broker.bootstrap_servers, topic, numbered(5))
    later = {"subscribe": topic, "startingTimestamp": str(NOW + 10_000)}

    with pytest.raises(SourceError, match="startingOffsetsByTimestampStrategy"):
        read_all(broker, **later)
    assert read_all(broker, **later, startingOffsetsByTimestampStrategy="latest") == []


def test_partitions_are_chosen_by_pattern_or_assigned(broker: EmbeddedBroker) -> None:
    for name in ("pick-a", "pick-b", "other"):
        broker.create_topic(name, partitions=2)
        produce(broker.bootstrap_servers, name, [name.encode()], partition=1)

    assert values_of(read_all(broker, subscribePattern="pick-.")) == [b"pick-a", b"pick-b"]
    assert values_of(read_all(broker, subscribePattern="^other$")) == [b"other"]
    assert values_of(read_all(broker, assign='{"other":[1],"pick-a":[0]}')) == [b"other"]
    with pytest.raises(SourceError, match="unknown partitions other-7"):
        read_all(broker, assign='{"other":[7]}')


def test_missing_topic_is_reported_immediately(broker: EmbeddedBroker) -> None:
    with pytest.raises(SourceError, match="topic 'nowhere' does not exist"):
        read_all(broker, subscribe="nowhere")


def test_starting_offsets_must_name_every_partition(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=2)

    with pytest.raises(SourceError, match="must name every partition"):
        read_all(broker, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":0}}}}')


def test_aborted_transactions_are_omitted_for_read_committed(
    broker: EmbeddedBroker,
) -> None:
    topic = broker.create_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(30)
    for number, commit in enumerate([True, False, True]):
        producer.begin_transaction()
        producer.produce(topic, b"transaction %d" % number)
        producer.flush(60)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    committed = read_all(broker, subscribe=topic, kafka_isolation_level="read_committed")
    assert values_of(committed) == [b"transaction 0", b"transaction 2"]
    everything = read_all(broker, subscribe=topic)
    assert [offset for _, offset, _ in everything] == [0, 2, 4]  # between them, the markers


def test_stream_continues_at_its_position(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    produce(broker.bootstrap_servers, topic, numbered(10))
    query = Query(stream_reader(broker.bootstrap_servers, subscribe=topic))

    assert values_of(query.next_batch()) == numbered(10)
    assert query.next_batch() == []
    produce(broker.bootstrap_servers, topic, numbered(5, 10))
    restarted = Query(stream_reader(broker.bootstrap_servers, subscribe=topic), query.offset)
    assert values_of(restarted.next_batch()) == numbered(5, 10)


def test_a_first_batch_run_again_after_a_restart_is_the_same(broker: EmbeddedBroker) -> None:
    """Spark requests the initial offset again, and `latest` differs by then."""
    topic = broker.create_topic()
    first = stream_reader(broker.bootstrap_servers, subscribe=topic, startingOffsets="latest")
    query = Query(first)
    produce(broker.bootstrap_servers, topic, numbered(10))
    end = first.latestOffset(query.offset, first.getDefaultReadLimit())
    produce(broker.bootstrap_servers, topic, numbered(10, 10))

    again = stream_reader(broker.bootstrap_servers, subscribe=topic, startingOffsets="latest")
    assert values_of(rows_of(again, again.partitions(again.initialOffset(), end))) == numbered(10)


def test_an_empty_first_batch_run_again_after_a_restart_loses_nothing(broker: EmbeddedBroker) -> None:
    """Spark has recorded its end; the requested start is after it by now."""
    topic = broker.create_topic()
    produce(broker.bootstrap_servers, topic, numbered(5))
    first = stream_reader(broker.bootstrap_servers, subscribe=topic, startingOffsets="latest")
    end = first.latestOffset(first.initialOffset(), first.getDefaultReadLimit())
    produce(broker.bootstrap_servers, topic, numbered(5, 5))

    again = stream_reader(broker.bootstrap_servers, subscribe=topic, startingOffsets="latest")
    assert values_of(rows_of(again, again.partitions(again.initialOffset(), end))) == []
    after = again.latestOffset(end, again.getDefaultReadLimit())
    assert values_of(rows_of(again, again.partitions(end, after))) == numbered(5, 5)
    assert again.latestOffset(after, again.getDefaultReadLimit()) == after, "or Spark would run empty batches"


def test_new_partition_without_its_first_records_is_a_loss(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    produce(broker.bootstrap_servers, topic, numbered(3))
    readers = {
        fail: stream_reader(broker.bootstrap_servers, subscribe=topic, failOnDataLoss=fail)
        for fail in ("true", "false")
    }
    start = {fail: reader.initialOffset() for fail, reader in readers.items()}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(60)
    produce(broker.bootstrap_servers, topic, numbered(4), partition=1)
    admin.delete_records([TopicPartition(topic, 1, 2)])[TopicPartition(topic, 1, 2)].result(60)
    ends = {
        fail: reader.latestOffset(start[fail], reader.getDefaultReadLimit())
        for fail, reader in readers.items()
    }
    with pytest.raises(DataLossError, match="are new, and their first records are already deleted"):
        readers["true"].partitions(start["true"], ends["true"])
    partitions = readers["false"].partitions(start["false"], ends["false"])
    assert len(values_of(rows_of(readers["false"], partitions))) == 5


def test_limits_bound_a_micro_batch(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=2)
    produce(broker.bootstrap_servers, topic, numbered(300), partition=0)
    produce(broker.bootstrap_servers, topic, numbered(100), partition=1)
    reader = stream_reader(broker.bootstrap_servers, subscribe=topic, maxOffsetsPerTrigger="40")
    assert reader.getDefaultReadLimit() == ReadMaxRows(40)
    query = Query(reader)

    found = query.next_batch(ReadMaxRows(40))
    assert [sum(1 for row in found if row[0] == index) for index in (0, 1)] == [30, 10]
    sizes = []
    while rows := query.next_batch(ReadMaxRows(40)):
        sizes.append(len(rows))
    assert sum(sizes) == 360


def test_batch_waits_for_enough_records_with_a_time_limit(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    options = {"subscribe": topic, "minOffsetsPerTrigger": "10", "maxTriggerDelay": "1s"}
    query = Query(stream_reader(broker.bootstrap_servers, **options))
    limit = ReadMinRows(10)
    assert query.reader.getDefaultReadLimit() == limit
    produce(broker.bootstrap_servers, topic, numbered(3))
    assert values_of(query.next_batch(limit)) == numbered(3)  # nothing was ever triggered: it is due

    produce(broker.bootstrap_servers, topic, numbered(3, 3))
    began = time.monotonic()
    assert query.next_batch(limit) == [] or time.monotonic() - began > 1
    deadline = began + 30
    while query.offset == query.reader.latestOffset(query.offset, limit) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert time.monotonic() < deadline


def test_available_now_ends_at_the_initial_end_offsets(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    produce(broker.bootstrap_servers, topic, numbered(30))
    reader = stream_reader(broker.bootstrap_servers, subscribe=topic)
    reader.prepareForTriggerAvailableNow()
    produce(broker.bootstrap_servers, topic, numbered(30, 30))
    query = Query(reader)

    found = query.next_batch(ReadMaxRows(20)) + query.next_batch(ReadMaxRows(20))
    assert values_of(found) == numbered(30)
    assert query.next_batch(ReadMaxRows(20)) == []


def test_partitions_that_are_added_are_read_from_their_beginning(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=1)
    produce(broker.bootstrap_servers, topic, numbered(5))
    query = Query(stream_reader(broker.bootstrap_servers, subscribe=topic))
    assert len(query.next_batch()) == 5

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(topic, 3)]).values():
        future.result(60)
    produce(broker.bootstrap_servers, topic, numbered(4), partition=2)
    assert [(row[0], row[1]) for row in query.next_batch()] == [(2, offset) for offset in range(4)]


def test_records_that_retention_removed_first_fail_the_query_or_are_passed_over(
    broker: EmbeddedBroker,
) -> None:
    topic = broker.create_topic()
    produce(broker.bootstrap_servers, topic, numbered(100))
    strict = stream_reader(broker.bootstrap_servers, subscribe=topic)
    lenient = stream_reader(broker.bootstrap_servers, subscribe=topic, failOnDataLoss="false")
    strict_query, lenient_query = Query(strict), Query(lenient)
    delete_records(broker, topic, 60)

    with pytest.raises(DataLossError, match=r"offset 0 of .* was deleted: the log starts at 60"):
        strict_query.next_batch()
    assert values_of(lenient_query.next_batch()) == numbered(40, 60)


def test_recreated_topic_is_another_topic(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("born-twice")
    produce(broker.bootstrap_servers, topic, numbered(5))
    strict = Query(stream_reader(broker.bootstrap_servers, subscribe=topic))
    lenient = Query(stream_reader(broker.bootstrap_servers, subscribe=topic, failOnDataLoss="false"))
    assert len(strict.next_batch()) == len(lenient.next_batch()) == 5
    recreate(broker, topic)
    produce(
        broker.bootstrap_servers, topic, numbered(8, 1000)
    )  # more than before: offsets alone would not show it

    with pytest.raises(DataLossError, match="born-twice was deleted and recreated"):
        strict.next_batch()
    assert values_of(lenient.next_batch()) == numbered(8, 1000)


def test_progress_is_seen_by_lag_tools(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    produce(broker.bootstrap_servers, topic, numbered(12))
    Query(stream_reader(broker.bootstrap_servers, subscribe=topic, kafka_group_id="my-pipeline")).next_batch()

    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "my-pipeline"})
    try:
        (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
    finally:
        consumer.close()
    assert committed.offset == 12


def test_small_partitions_share_a_task(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=8)
    for partition in range(8):
        produce(broker.bootstrap_servers, topic, numbered(3), partition=partition)
    query = Query(stream_reader(broker.bootstrap_servers, subscribe=topic))

    assert len(query.next_batch()) == 24
    assert len(query.tasks) == 1
    parted = batch_reader(broker.bootstrap_servers, subscribe=topic, minPartitions="8")
    assert len(parted.partitions()) == 8


def test_a_batch_larger_than_a_fetch_is_read(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=2)
    large = b"x" * 700_000
    for partition in range(2):
        produce(broker.bootstrap_servers, topic, [b"small", large, b"end"], partition=partition)

    found = read_all(broker, subscribe=topic, kafka_max_partition_fetch_bytes="1000")
    assert values_of(found) == [b"small", large, b"end"] * 2


def test_an_unreachable_broker_is_named() -> None:
    reader = batch_reader("127.0.0.1:1", subscribe="orders", kafka_default_api_timeout_ms="100")

    with pytest.raises(Exception, match=r"cannot connect to 127\.0\.0\.1:1"):
        reader.partitions()


def test_a_broker_that_is_away_for_a_while_is_waited_for() -> None:
    """The driver retries and a running task continues: nothing is read twice or skipped."""
    with EmbeddedBroker() as broker:
        topic = broker.create_topic()
        produce(broker.bootstrap_servers, topic, [b"x" * 1000] * 3000)
        reader = batch_reader(
            broker.bootstrap_servers, subscribe=topic, kafka_max_partition_fetch_bytes="100000"
        )
        (task,) = reader.partitions()
        batches = reader.read(task)
        found = [next(batches)]
        address = broker.bootstrap_servers
        broker.restart()
        found += batches
        assert sum(batch.num_rows for batch in found) == 3000

        stream = stream_reader(address, subscribe=topic)
        query = Query(stream)
        broker.kill()
        returning = threading.Timer(3, broker.start)
        returning.start()
        try:
            assert len(query.next_batch()) == 3000
        finally:
            returning.join()


def test_a_stream_that_spark_ends_ends_its_process_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    reader = stream_reader("127.0.0.1:9", subscribe="orders")
    reader.stop()
    assert ended == []
    with contextlib.suppress(EOFError), contextlib.ExitStack() as stack:
        stack.callback(reader.stop)
        raise EOFError
    assert ended == [0]
