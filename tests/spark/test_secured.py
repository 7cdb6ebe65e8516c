"""Source, sink and a complete pipeline over SASL_SSL, on Apache Kafka and Barnabas."""

import asyncio
import itertools
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody writes Spark

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.pipelines.definitions.files import read_pipeline
from barnabas.pipelines.running.runner import Runner
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.jars import requires_java
from tests.support.kafka.secured import PASSWORD, SCRAM_LOGIN, USER, SecuredKafka
from tests.support.spark.jars import requires_connector
from tests.support.spark.reading import produce, run_to_end

pytestmark = [requires_java, pytest.mark.timeout(600)]

VALUES = [b"value %d" % index for index in range(500)]
_numbers = itertools.count()


@pytest.fixture
def topic(secured_kafka: SecuredKafka) -> str:
    name = f"secured-{next(_numbers)}"
    make(secured_kafka, name)
    produce(secured_kafka.bootstrap_servers, name, VALUES, partition=0)
    produce(secured_kafka.bootstrap_servers, name, VALUES, partition=1)
    return name


def make(kafka: SecuredKafka, name: str) -> None:
    async def create() -> None:
        async with Client(kafka.bootstrap_servers) as client:
            await admin.create_topic(client, name, partitions=2)

    asyncio.run(create())


def options(kafka: SecuredKafka, topic: str, **login: str) -> dict[str, str]:
    """Options in the form of Spark's connector."""
    values = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": SCRAM_LOGIN, **login}
    settings = {**kafka.settings("SECURE", **values), "ssl.truststore.type": "PEM"}
    return {
        "kafka.bootstrap.servers": kafka.address("SECURE"),
        "subscribe": topic,
        **{f"kafka.{name}": value for name, value in settings.items()},
    }


def values(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row[0]) for row in frame.select("value").collect())


@requires_connector
def test_the_same_options_read_the_same_rows_as_sparks_own_connector(
    spark: SparkSession, secured_kafka: SecuredKafka, topic: str
) -> None:
    settings = options(secured_kafka, topic)
    ours = spark.read.format("barnabas").options(**settings).load()
    sparks = spark.read.format("kafka").options(**settings).load()

    assert values(ours) == values(sparks) == sorted(VALUES * 2)


def test_a_stream_is_read_and_written_exactly_once(
    spark: SparkSession, secured_kafka: SecuredKafka, topic: str, tmp_path: Path
) -> None:
    written = f"{topic}-written"
    make(secured_kafka, written)
    settings = options(secured_kafka, topic)
    sink = {name: value for name, value in settings.items() if name != "subscribe"}
    stream = spark.readStream.format("barnabas").options(**settings, startingOffsets="earliest").load()
    writer = stream.select("key", "value").writeStream.format("barnabas").options(**sink, topic=written)
    writer = writer.option("handedOverBytes", "0").option("checkpointLocation", str(tmp_path / "checkpoint"))

    run_to_end(lambda: writer.trigger(availableNow=True).start())
    frame = spark.range(10).select(F.col("id").cast("string").alias("value"))
    frame.write.format("barnabas").options(**sink, topic=written).mode("append").save()

    back = spark.read.format("barnabas").options(**{**settings, "subscribe": written})
    rows = values(back.option("kafka.isolation.level", "read_committed").load())
    assert rows == sorted([*VALUES * 2, *(b"%d" % number for number in range(10))])


def test_no_secret_is_in_a_plan(spark: SparkSession, secured_kafka: SecuredKafka, topic: str) -> None:
    plain = options(secured_kafka, topic, sasl_username=USER, sasl_password=PASSWORD)
    frame = spark.read.format("barnabas").options(**plain).load().groupBy("topic").count()
    shown = frame._jdf.queryExecution().toString()
    stream = spark.readStream.format("barnabas").options(**plain).load()
    shown += stream._jdf.queryExecution().toString() + repr(frame)

    assert "count" in shown
    assert "secret" not in shown
    assert "al=ice" not in shown


def test_errors_are_reported_as_a_message(
    spark: SparkSession, secured_kafka: SecuredKafka, topic: str, tmp_path: Path
) -> None:
    wrong = {
        "invalid credentials with SASL mechanism": {"sasl_jaas_config": SCRAM_LOGIN.replace("al=", "hush=")},
        "which cannot be read: No such file": {"ssl_truststore_location": str(tmp_path / "hush")},
        "must be MODULE required": {"sasl_jaas_config": "hush"},
    }
    for text, login in wrong.items():
        with pytest.raises(PySparkException) as caught:
            spark.read.format("barnabas").options(**options(secured_kafka, topic, **login)).load().count()
        assert text in str(caught.value)
        assert "hush=" not in str(caught.value)


SPEC = """
name: secured
storage: file://{folder}/storage
configuration:
  barnabas.bootstrap.servers: {servers}
  barnabas.security.protocol: SASL_SSL
  barnabas.ssl.ca.location: {trust}
  barnabas.sasl.mechanism: SCRAM-SHA-256
  barnabas.sasl.username: alice
  barnabas.sasl.password: ${{env:KAFKA_PASSWORD}}
  secured.topic: {topic}
libraries:
  - glob: {{include: transformations/**}}
"""
SETTINGS = """
quality:
  - {dataset: values, name: short, condition: "length(value) < 9", action: quarantine}
dead_letters: {topic: "${secured.topic}.dead"}
topics:
  - {name: "${secured.topic}.copy"}
  - {name: "${secured.topic}.dead"}
"""
DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from barnabas.pipelines.connection import broker_options

spark = SparkSession.active()
topic = spark.conf.get("secured.topic")
dp.create_sink("copy", "barnabas", {**broker_options(spark), "topic": f"{topic}.copy"})

@dp.temporary_view
def values():
    reader = spark.readStream.format("barnabas").options(**broker_options(spark))
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()

@dp.append_flow(target="copy")
def copied():
    return spark.readStream.table("values").select("key", "value")
"""


@pytest.fixture
def pipeline(secured_kafka: SecuredKafka, topic: str, tmp_path: Path) -> Path:
    spec = SPEC.format(
        folder=tmp_path, servers=secured_kafka.address("SECURE"), trust=secured_kafka.trust, topic=topic
    )
    (tmp_path / "spark-pipeline.yml").write_text(spec)
    (tmp_path / "barnabas.yml").write_text(SETTINGS)
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "definitions.py").write_text(DEFINITIONS)
    return tmp_path


def test_pipeline_runs_with_a_password_from_a_file(
    spark: SparkSession, secured_kafka: SecuredKafka, topic: str, pipeline: Path, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=" + PASSWORD.replace("\\", "\\\\") + "\n")
    spec = pipeline / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("${env:KAFKA_PASSWORD}", f"${{file:{secrets}:password}}"))
    runner = Runner(read_pipeline(pipeline), spark)
    try:
        runner.prepare()
        runner.run_once()
    finally:
        runner.close()

    found = {
        name: values(
            spark.read.format("barnabas").options(**options(secured_kafka, f"{topic}.{name}")).load()
        )
        for name in ("copy", "dead")
    }
    assert found["copy"] == sorted(value for value in VALUES * 2 if len(value) < 9)
    assert len(found["dead"]) == sum(len(value) >= 9 for value in VALUES * 2)


def test_rejected_pipeline_reports_it_before_it_starts(
    spark: SparkSession, pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        PipelineError, match=r"barnabas\.sasl\.password names .* KAFKA_PASSWORD, which is not set"
    ):
        Runner(read_pipeline(pipeline), spark)
    monkeypatch.setenv("KAFKA_PASSWORD", "not-hers")
    runner = Runner(read_pipeline(pipeline), spark)
    with pytest.raises(PipelineError, match=r"The brokers reject the pipeline: .*invalid credentials"):
        runner._ask_broker(make_topics=True)
    runner.close()


@requires_connector
def test_barnabas_broker_serves_both_spark_connectors_over_sasl_ssl(spark: SparkSession) -> None:
    with EmbeddedBroker(security="SASL_SSL", users={"alice": "secret"}) as broker:
        topic = broker.create_topic()
        clients = broker.clients_of("alice", "SCRAM-SHA-512")
        producer = Producer(clients.confluent)
        for value in VALUES:
            producer.produce(topic, value)
        assert producer.flush(60) == 0
        settings = {"subscribe": topic, **{f"kafka.{name}": value for name, value in clients.java.items()}}
        ours = spark.read.format("barnabas").options(**settings).load()
        sparks = spark.read.format("kafka").options(**settings).load()
        assert values(ours) == values(sparks) == sorted(VALUES)
