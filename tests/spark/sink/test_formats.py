"""Rows as values of a schema registry, written by Spark and read by confluent-kafka's deserializers."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import DataFrame, SparkSession

from barnabas.common.http_client import fetch
from barnabas.security.tls import Authority
from barnabas.spark.options import OptionError
from barnabas.spark.sink.settings import SinkSettings, read_settings
from barnabas.spark.source.ddl import parse_ddl
from barnabas.testing import EmbeddedBroker
from tests.support.topics import read_committed

pytestmark = pytest.mark.timeout(600)
ORDER = "value STRUCT<id: BIGINT, tags: ARRAY<STRING>>, key BIGINT"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as running:
        yield running


def options_of(broker: EmbeddedBroker, **more: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, **named}


def settings_of(broker: EmbeddedBroker, ddl: str = ORDER, **more: str) -> SinkSettings:
    return read_settings(options_of(broker, **more), parse_ddl(ddl), is_streaming=False)


def orders(spark: SparkSession, count: int, *more: str) -> DataFrame:
    fields = ["id", "array(cast(id as string)) tags", *more]
    named = ", ".join(f"'{field.split()[-1]}', {field.rpartition(' ')[0] or field}" for field in fields)
    return spark.range(0, count, 1, 2).selectExpr(f"named_struct({named}) value", "id key")


def read(broker: EmbeddedBroker, topic: str, deserialize: Any) -> list[Any]:
    context = SerializationContext(topic, MessageField.VALUE)
    return [
        deserialize(message.value(), context) for message in read_committed(broker.bootstrap_servers, topic)
    ]


@pytest.mark.parametrize("count", [10, 20_000])  # handed to the driver; in transactions of the tasks
def test_a_job_writes_avro_that_confluents_deserializer_reads(
    spark: SparkSession, broker: EmbeddedBroker, count: int
) -> None:
    topic = broker.create_topic(partitions=2)
    chosen = options_of(broker, topic=topic, value_format="avro", key_format="avro")
    orders(spark, count).write.format("barnabas").options(**chosen).mode("append").save()
    with SchemaRegistryClient({"url": broker.registry_url}) as client:
        found = read(broker, topic, AvroDeserializer(client))
        assert sorted(row["id"] for row in found) == list(range(count))
        assert all(row["tags"] == [str(row["id"])] for row in found)
        keys = AvroDeserializer(client)
        [first, *_] = read_committed(broker.bootstrap_servers, topic)
        assert keys(first.key(), SerializationContext(topic, MessageField.KEY)) in range(count)
        assert client.get_latest_version(f"{topic}-key").schema.schema_str == '"long"'


def test_a_query_continues_with_a_new_column_as_a_new_version(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic()
    chosen = options_of(broker, topic=topic, value_format="json", checkpointLocation=str(tmp_path / "state"))

    def run(*more: str) -> None:
        orders(spark, 3, *more).write.mode("append").parquet(str(tmp_path / "orders"))
        schema = orders(spark, 0, *more).schema
        frame = spark.readStream.schema(schema).parquet(str(tmp_path / "orders")).select("value")
        query = frame.writeStream.format("barnabas").options(**chosen).trigger(availableNow=True).start()
        query.awaitTermination()

    run()
    run("id + 0.5D price")
    with SchemaRegistryClient({"url": broker.registry_url}) as client:
        assert client.get_versions(f"{topic}-value") == [1, 2]
        newest = client.get_latest_version(f"{topic}-value").schema.schema_str
        found = read(broker, topic, JSONDeserializer(newest, schema_registry_client=client))
    assert sorted((row["id"], row.get("price")) for row in found[:3]) == [(0, None), (1, None), (2, None)]
    assert sorted((row["id"], row["price"]) for row in found[3:]) == [(0, 0.5), (1, 1.5), (2, 2.5)]


def test_an_incompatible_change_is_refused_before_anything_is_written(broker: EmbeddedBroker) -> None:
    settings_of(broker, topic="changing", value_format="avro", key_format="avro")
    with pytest.raises(
        OptionError,
        match=r"not accepted for subject changing-value: .* rejected the request: Incompatible schema",
    ) as refused:
        settings_of(broker, "value STRUCT<id: STRING>", topic="changing", value_format="avro")
    assert "\n" not in str(refused.value)


def test_a_schema_is_registered_once_in_a_process(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = settings_of(
        broker, topic="once", key_format="avro", value_format="protobuf", value_record_name="shop.Order"
    )
    monkeypatch.setattr("barnabas.client.schemas.SchemaClient.request", None)
    again = settings_of(
        broker, topic="once", key_format="avro", value_format="protobuf", value_record_name="shop.Order"
    )
    assert again.framed == first.framed


@pytest.mark.parametrize(
    ("ddl", "options", "problem"),
    [
        (ORDER, {"topic": "t", "value_format": "xml"}, "must be one of avro, json, protobuf"),
        (ORDER, {"topic": "t"}, r"column 'value' must be .* or set the option 'value\.format'"),
        (
            "value STRUCT<a: INT>",
            {"topic": "t", "value_format": "avro", "key_format": "avro"},
            "no column 'key'",
        ),
        (
            ORDER,
            {
                "topic": "t",
                "value_format": "avro",
                "use_latest_version": "true",
                "auto_register_schemas": "true",
            },
            "contradict each other",
        ),
        (
            ORDER,
            {"topic": "t", "value_format": "avro", "value_subject_name_strategy": "MyStrategy"},
            "must be one of TopicNameStrategy, RecordNameStrategy",
        ),
        (
            f"{ORDER}, topic STRING",
            {"value_format": "avro"},
            "TopicNameStrategy needs one topic",
        ),
        (
            ORDER,
            {"topic": "t", "value_format": "avro", "schema_registry_url": "http://127.0.0.1:9"},
            "did not respond",
        ),
        (
            ORDER,
            {"topic": "t", "value_format": "avro", "schema_registry_ulr": "http://127.0.0.1:9"},
            r"did you mean schema\.registry\.url",
        ),
    ],
)
def test_write_error_is_one_line(
    broker: EmbeddedBroker, ddl: str, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        settings_of(broker, ddl, **{"key_format": "avro", **options})


def test_a_login_is_in_no_plan_and_no_repr(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic()
    chosen = options_of(
        broker,
        topic=topic,
        value_format="avro",
        schema_registry_basic_auth_user_info="ann:hunter22",
        checkpointLocation=str(tmp_path / "state"),
    )
    orders(spark, 1).write.parquet(str(tmp_path / "orders"))
    settings = read_settings(chosen, parse_ddl("value STRUCT<id: BIGINT>"), is_streaming=True)
    assert "hunter22" not in repr(settings)
    frame = spark.readStream.schema(orders(spark, 0).schema).parquet(str(tmp_path / "orders"))
    frame = frame.select("value")
    query = frame.writeStream.format("barnabas").options(**chosen).trigger(availableNow=True).start()
    query.awaitTermination()
    assert "hunter22" not in (query._jsq.explainInternal(True) or "")
    written = "".join(path.read_text("latin-1") for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert "hunter22" not in written


LOGIN = {"Basic " + base64.b64encode(b"ann:hunter22").decode(), "Bearer abc"}


class Gateway(BaseHTTPRequestHandler):
    """Requires a login in front of a registry, as in a company."""

    registry = ""

    def do_GET(self) -> None:
        self._forward(None)

    def do_POST(self) -> None:
        self._forward(self.rfile.read(int(self.headers["Content-Length"])))

    def _forward(self, body: bytes | None) -> None:
        status, answer = 401, b"{}"
        if self.headers["Authorization"] in LOGIN:
            kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
            found = fetch(
                self.registry + self.path, method=self.command, body=body or b"", headers=kind, timeout=30.0
            )
            status, answer = found.status, found.body
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Quiet."""


@pytest.fixture
def gateway(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[dict[str, str]]:
    certificate = Authority(tmp_path).client("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    handler = type("GatewayOfBroker", (Gateway,), {"registry": broker.registry_url})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield {
        "schema.registry.url": f"https://127.0.0.1:{server.server_port}",
        "schema.registry.ssl.ca.location": str(tmp_path / "ca.pem"),
        "schema.registry.ssl.endpoint.identification.algorithm": "none",
    }
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("kind", "login"),
    [
        ("protobuf", {"schema.registry.basic.auth.user.info": "ann:hunter22"}),
        ("json", {"schema.registry.bearer.auth.token": "abc"}),
    ],
)
def test_a_registry_behind_https_and_a_login_is_set_by_options(
    spark: SparkSession, broker: EmbeddedBroker, gateway: dict[str, str], kind: str, login: dict[str, str]
) -> None:
    topic = broker.create_topic()
    chosen = options_of(broker, topic=topic, value_format=kind)
    rows = orders(spark, 3).select("value")
    with pytest.raises(OptionError, match="401"):
        read_settings({**chosen, **gateway}, parse_ddl("value STRUCT<id: BIGINT>"), is_streaming=False)
    rows.write.format("barnabas").options(**chosen, **gateway, **login).mode("append").save()
    source = options_of(broker, subscribe=topic, value_format=kind, value_registry="true")
    found = spark.read.format("barnabas").options(**source, **gateway, **login).load()
    assert sorted((row.id, row.tags) for row in found.collect()) == [(n, [str(n)]) for n in range(3)]
