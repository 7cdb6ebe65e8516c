"""Our data source and Spark's Kafka connector: the same rows, from Barnabas and Apache Kafka."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody writes Spark

from barnabas.testing import EmbeddedBroker
from tests.spark.source.readers import batch_reader, rows_of
from tests.spark.source.test_readers import delete_records, recreate
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.jars import requires_java
from tests.support.spark.jars import requires_connector
from tests.support.spark.reading import DEADLINE, NOW, produce, read, run_to_end, started, stream
from tests.support.waiting import eventually, until

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "20000",
    "file.delete.delay.ms": "0",
}
MANY_SECONDS = pytest.mark.timeout(600)  # JVMs on a loaded machine

pytestmark = [MANY_SECONDS]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Everything of a frame, in the order of its records."""
    found = [tuple(row) for row in frame.collect()]
    return sorted(found, key=lambda row: (row[2], row[3], row[4]))


def produce_everything(bootstrap: str, topic: str, partitions: int) -> None:
    """Null keys, null values, headers with and without values, two codecs."""
    for codec in ("none", "lz4"):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for index in range(60):
            producer.produce(
                topic,
                None if index % 5 == 0 else b"value %d" % index,
                key=None if index % 3 == 0 else b"key %d" % index,
                partition=index % partitions,
                timestamp=NOW + index,
                headers=[("trace", b"%d" % index), ("none", None)] if index % 4 == 0 else [],
            )
        assert producer.flush(DEADLINE) == 0


@requires_connector
def test_both_connectors_read_the_same_rows(spark: SparkSession, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=3)
    produce_everything(broker.bootstrap_servers, topic, 3)
    ours = read(spark, broker.bootstrap_servers, topic, includeHeaders="true")
    expected = read(spark, broker.bootstrap_servers, topic, source="kafka", includeHeaders="true")

    assert ours.schema == expected.schema
    found = rows(ours)
    assert found == rows(expected)
    assert len(found) == 120


@requires_connector
def test_a_pattern_means_the_same_topics_to_both(spark: SparkSession, broker: EmbeddedBroker) -> None:
    """It matches anywhere in a name, and excludes Kafka's internal topics, not every name with `__`."""
    meant = ["__odd", "odd", "very-odd-2"]
    for name in (*meant, "even"):
        broker.create_topic(name)
        produce(broker.bootstrap_servers, name, [b"x"])
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "odd"})
    consumer.commit(offsets=[TopicPartition("odd", 0, 1)], asynchronous=False)
    assert "__consumer_offsets" in consumer.list_topics(timeout=DEADLINE).topics
    consumer.close()

    def topics(source: str) -> list[str]:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", broker.bootstrap_servers)
        frame = reader.option("subscribePattern", "odd|__consumer").load()
        return sorted({row["topic"] for row in frame.select("topic").collect()})

    assert topics("barnabas") == topics("kafka") == meant


@requires_connector
def test_both_read_a_compacted_and_a_transactional_topic_equally(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedBroker({"log.cleaner.backoff.ms": "100"}, data_dir=tmp_path) as compacting:
        address = compacting.bootstrap_servers
        compacted = compacting.create_topic(configs=COMPACTED)
        producer = Producer({"bootstrap.servers": address, "batch.size": 2000, "linger.ms": 1})
        for index in range(3000):
            producer.produce(compacted, b"v%d" % index, key=b"key %d" % (index % 7))
        assert producer.flush(DEADLINE) == 0
        reader = batch_reader(address, subscribe=compacted)
        until(lambda: len(rows_of(reader, reader.partitions())) < 1500, "the compaction", seconds=DEADLINE)
        transactional = compacting.create_topic()
        produce_transactions(address, transactional)
        for topic in (compacted, transactional):
            frames = [
                read(spark, address, topic, source=source, kafka_isolation_level="read_committed").select(
                    "key", "value", "topic", "partition", "offset"
                )
                for source in ("barnabas", "kafka")
            ]
            ours, expected = map(rows, frames)
            assert ours == expected
            assert ours[-1][4] == (2999 if topic == compacted else 10)  # behind it, a marker
            assert sorted(row[1] for row in ours) == streamed_by_spark(spark, address, topic)


def streamed_by_spark(session: SparkSession, address: str, topic: str) -> list[bytes]:
    """Committed records, streamed by Spark's connector."""
    frame = stream(session, address, topic, source="kafka", kafka_isolation_level="read_committed").load()
    name = f"streamed_{topic}".replace("-", "_")
    writer = frame.select("value").writeStream.format("memory").queryName(name)
    run_to_end(writer.trigger(availableNow=True).start)
    return sorted(row.value for row in session.table(name).collect())


def produce_transactions(address: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"tx-{topic}", "linger.ms": 0})
    producer.init_transactions(DEADLINE)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(topic, b"first of %d" % number)
        producer.produce(topic, b"second of %d" % number)
        if number % 2:
            producer.commit_transaction(DEADLINE)
        else:
            producer.flush(DEADLINE)
            producer.abort_transaction(DEADLINE)


@requires_connector
@pytest.mark.parametrize("source", ["barnabas", "kafka"])
def test_a_stream_is_restarted_from_its_checkpoint(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, source: str
) -> None:
    topic = broker.create_topic(partitions=2)

    def run() -> list[bytes]:
        values = stream(spark, broker.bootstrap_servers, topic, source=source).load().select("value")
        writer = (
            values.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "table"))
            .trigger(availableNow=True)
        )
        run_to_end(writer.start)
        return sorted(row.value for row in spark.read.parquet(str(tmp_path / "table")).collect())

    first, second = [b"%04d" % index for index in range(40)], [b"%04d" % index for index in range(40, 70)]
    produce(broker.bootstrap_servers, topic, first, partition=0)
    assert run() == first
    produce(broker.bootstrap_servers, topic, second, partition=1)
    assert run() == first + second


@requires_connector
def test_records_of_sparks_connector_are_read_by_ours(spark: SparkSession, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=2)
    frame = spark.range(200).select(F.col("id").cast("string").alias("key"), F.lit("x").alias("value"))
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer.option("topic", topic).save()

    found = read(spark, broker.bootstrap_servers, topic, columns="key").collect()
    assert sorted(int(row.key) for row in found) == list(range(200))


@requires_connector
def test_streams_of_both_connectors_pass_records_on(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Spark's connector copies a topic, ours copies the copy in transactions, and Spark's reads committed records."""
    address = broker.bootstrap_servers
    topics = [broker.create_topic(partitions=2) for _ in range(3)]
    values = [b"%03d" % index for index in range(80)]
    produce(address, topics[0], values)
    for number, kind in enumerate(("kafka", "barnabas")):
        frame = stream(spark, address, topics[number], source=kind).load().select("key", "value")
        writer = frame.writeStream.format(kind).option("kafka.bootstrap.servers", address)
        writer = writer.option("topic", topics[number + 1])
        writer = writer.option("checkpointLocation", str(tmp_path / kind)).trigger(availableNow=True)
        run_to_end(writer.start)
    assert streamed_by_spark(spark, address, topics[2]) == values


def test_stream_with_deleted_records_stops_or_continues_by_option(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Retention overtakes it; then the topic is deleted and recreated."""
    topic = broker.create_topic(f"gone-{tmp_path.name}")

    def run(fail: str) -> list[bytes]:
        frame = stream(spark, broker.bootstrap_servers, topic, failOnDataLoss=fail).load().select("value")
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        run_to_end(writer.trigger(availableNow=True).start)
        return sorted(row.value for row in spark.read.parquet(str(tmp_path / "table")).collect())

    values = [b"%03d" % index for index in range(60)]
    produce(broker.bootstrap_servers, topic, values[:20])
    assert run("true") == values[:20]
    produce(broker.bootstrap_servers, topic, values[20:40])
    delete_records(broker, topic, 30)
    with pytest.raises(Exception, match=f"offset 20 of {topic}-0 was deleted: the log starts at 30"):
        run("true")
    assert run("false") == values[:20] + values[30:40]
    recreate(broker, topic)
    produce(broker.bootstrap_servers, topic, values[40:])
    with pytest.raises(Exception, match=f"{topic} was deleted and recreated"):
        run("true")
    assert run("false") == values[:20] + values[30:]


@requires_connector
def test_typed_values_count_as_from_json_does(spark: SparkSession, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=2)
    events = [{"page": f"/{index % 5}", "ms": index} for index in range(100)]
    produce(broker.bootstrap_servers, topic, [json.dumps(event).encode() for event in events])
    produce(broker.bootstrap_servers, topic, [b"oops", b'{"page":7'], partition=1)

    def counted(frame: DataFrame) -> list[tuple[Any, ...]]:
        grouped = frame.groupBy("page").agg(F.count("*").alias("n"), F.sum("ms").alias("ms"))
        return sorted((tuple(row) for row in grouped.collect()), key=str)

    schema = "page STRING, ms BIGINT"
    expected = read(spark, broker.bootstrap_servers, topic, source="kafka")
    parsed = expected.select(F.from_json(F.col("value").cast("string"), schema).alias("event")).select(
        "event.*"
    )
    ours = read(spark, broker.bootstrap_servers, topic, value_format="json", value_schema=schema)
    assert counted(ours) == counted(parsed)

    with_bad = read(
        spark, broker.bootstrap_servers, topic, value_format="json", value_schema=schema,
        columns="_offset,_corrupt_record",
    )  # fmt: skip
    assert sorted(with_bad.where("_corrupt_record IS NOT NULL").collect()) == [(0, "oops"), (1, '{"page":7')]


def test_running_stream_reads_new_records(spark: SparkSession, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=2)
    values = stream(spark, broker.bootstrap_servers, topic, kafka_group_id="running").load()
    produce(broker.bootstrap_servers, topic, [b"0"] * 10, partition=0)
    writer = values.writeStream.format("memory").queryName("running_stream")
    query = started(writer.trigger(processingTime="0 seconds").start)
    try:
        for number in range(1, 3):
            produce(broker.bootstrap_servers, topic, [b"%d" % number] * 10, partition=number % 2)
            wanted = 10 * (number + 1)
            eventually(lambda: spark.table("running_stream").count(), wanted.__eq__, DEADLINE, every=0.1)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for future in admin.create_partitions([NewPartitions(topic, 3)]).values():
            future.result(DEADLINE)
        produce(broker.bootstrap_servers, topic, [b"in a new partition"] * 5, partition=2)
        until(
            lambda: spark.table("running_stream").count() == 35,
            "the batch of the new partition",
            seconds=DEADLINE,
        )
        progress = query.lastProgress
    finally:
        query.stop()
    assert progress is not None
    assert json.loads(progress["sources"][0]["endOffset"])[topic] == {"0": 20, "1": 10, "2": 5}


def test_usage_error_is_reported_in_one_line(spark: SparkSession, broker: EmbeddedBroker) -> None:
    with pytest.raises(
        Exception, match="unknown option 'startingoffset' of the source; did you mean 'startingOffsets'"
    ):
        read(spark, broker.bootstrap_servers, "any", startingOffset="earliest")
    with pytest.raises(Exception, match="topic 'nowhere-at-all' does not exist"):
        read(spark, broker.bootstrap_servers, "nowhere-at-all").count()
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    reader = reader.option("subscribe", "any").option("value.format", "json").schema("n INT NOT NULL")
    with pytest.raises(Exception, match="column 'n' is NOT NULL in the schema"):
        reader.load().count()


@requires_java
@requires_connector
def test_apache_kafka_is_read_as_sparks_connector_reads_it(spark: SparkSession, kafka: ApacheKafka) -> None:
    address = kafka.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": address})
    names = ("everything", "transactions")
    for created in admin.create_topics([NewTopic(name, 3, 1) for name in names]).values():
        created.result(DEADLINE)
    produce_everything(address, "everything", 3)
    produce_transactions(address, "transactions")
    for topic in names:
        options = {"kafka_isolation_level": "read_committed", "includeHeaders": "true"}
        ours = read(spark, address, topic, **options)
        assert rows(ours) == rows(read(spark, address, topic, source="kafka", **options))

    frame = stream(spark, address, "everything", kafka_group_id="ours", maxOffsetsPerTrigger="50").load()
    writer = frame.writeStream.format("memory").queryName("from_apache_kafka").trigger(availableNow=True)
    run_to_end(writer.start)
    assert spark.table("from_apache_kafka").count() == 120
    consumer = Consumer({"bootstrap.servers": address, "group.id": "ours"})
    try:
        committed = consumer.committed([TopicPartition("everything", index) for index in range(3)], DEADLINE)
    finally:
        consumer.close()
    assert sum(place.offset for place in committed) > 0  # the last batch is committed with the next one
