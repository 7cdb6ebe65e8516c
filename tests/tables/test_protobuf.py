"""Values of confluent-kafka's ProtobufSerializer as columns, in tables and in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import MessageToDict

import barnabas
from barnabas.client.schemas.client import Schema, SchemaClient, SchemaReference, encode, join_message_index
from barnabas.client.schemas.formats.protobuf import ProtoFiles, descriptors_of_id
from barnabas.spark.options import OptionError
from barnabas.spark.source import make_reader, schema_of
from barnabas.spark.source.stream import BatchReader
from barnabas.tables.errors import SchemaError
from barnabas.tables.parsing import protobuf_columns
from barnabas.tables.table import Table
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli
from tests.tables.conftest import DEADLINE

ADDRESS = 'syntax = "proto3"; package shop; message Address { string city = 1; }'
ORDER = """
syntax = "proto3";
package shop;
import "address.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
message Note { string text = 1; }
message Order {
  enum State { OPEN = 0; PAID = 1; }
  message Line { string sku = 1; int32 count = 2; repeated double prices = 3; }
  message Tree { string name = 1; repeated Tree children = 2; }
  int64 id = 1;
  uint32 small = 2;
  uint64 large = 3;
  float rate = 4;
  bool open = 5;
  bytes raw = 6;
  State state = 7;
  optional string comment = 8;
  oneof payment { string card = 9; Address invoice = 10; }
  repeated Line lines = 11;
  map<string, int32> counts = 12;
  map<int32, Address> places = 13;
  google.protobuf.Timestamp at = 14;
  google.protobuf.StringValue nickname = 15;
  google.protobuf.Struct extra = 16;
  Tree tree = 17;
  Address home = 18;
  repeated State states = 19;
}
"""
MOMENT = datetime(2026, 11, 17, 12, 0, 0, 123456, UTC)
FULL: dict[str, Any] = {
    "id": 1 << 60,
    "small": (1 << 32) - 1,
    "large": (1 << 64) - 1,
    "rate": 0.5,
    "open": True,
    "raw": b"\0\xff",
    "state": "PAID",
    "comment": "",
    "card": "visa",
    "lines": [{"sku": "a", "count": 2, "prices": [1.5, 2.5]}, {"sku": "b"}],
    "counts": {"x": 1, "y": 2},
    "places": {7: {"city": "Köln"}},
    "at": MOMENT,
    "nickname": {"value": "nick"},
    "extra": {"a": [1.0, None]},
    "tree": {"name": "root", "children": [{"name": "leaf"}]},
    "home": {"city": "Bonn"},
    "states": ["OPEN", "PAID"],
}
FULL_ROW = {
    **FULL,
    "large": Decimal((1 << 64) - 1),
    "invoice": None,
    "nickname": "nick",
    "lines": [{"sku": "a", "count": 2, "prices": [1.5, 2.5]}, {"sku": "b", "count": 0, "prices": []}],
    "counts": [("x", 1), ("y", 2)],
    "places": [(7, {"city": "Köln"})],
    "extra": '{"a": [1.0, null]}',
    "tree": {"name": "root", "children": ['{"name": "leaf"}']},
    "_error": None,
}
EMPTY_ROW = {
    "id": 0, "small": 0, "large": Decimal(0), "rate": 0.0, "open": False, "raw": b"", "state": "OPEN", "comment": None,
    "card": None, "invoice": None, "lines": [], "counts": [], "places": [], "at": None, "nickname": None, "extra": None,
    "tree": None, "home": None, "states": [], "_error": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def registered() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def order(registered: EmbeddedBroker) -> Any:
    """The class of the message, for producers."""
    with SchemaClient(registered.registry_url) as client:
        client.register("address", Schema("PROTOBUF", ADDRESS))
        schema_id = client.register("orders-of-all-topics", schema(ORDER))
        return ProtoFiles(descriptors_of_id(client, schema_id)).message("shop.Order")


def schema(text: str) -> Schema:
    return Schema("PROTOBUF", text, (SchemaReference("address.proto", "address", 1),))


def topic_of(registered: EmbeddedBroker, text: str = ORDER) -> tuple[str, int]:
    """A topic whose values have this schema, and the schema's id."""
    topic = registered.create_topic(partitions=1)
    with SchemaClient(registered.registry_url) as client:
        return topic, client.register(f"{topic}-value", schema(text))


def send(broker: EmbeddedBroker, topic: str, *values: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE) == 0


def table_of(broker: EmbeddedBroker, topic: str) -> Table:
    return barnabas.table(topic, bootstrap=broker.bootstrap_servers, registry=broker.registry_url)


def by_confluent(registered: EmbeddedBroker, topic: str, message: Any) -> bytes:
    """Output of the serializer with the registered schema."""
    settings = {
        "auto.register.schemas": False,
        "use.latest.version": True,
        "use.deprecated.format": False,
        "skip.known.types": True,
    }
    with SchemaRegistryClient({"url": registered.registry_url}) as client:
        serializer = ProtobufSerializer(type(message), client, settings)
        found = serializer(message, SerializationContext(topic, MessageField.VALUE))
    assert isinstance(found, bytes)
    return found


def test_every_kind_of_field_is_a_column(registered: EmbeddedBroker, order: Any) -> None:
    topic, _ = topic_of(registered)
    full = by_confluent(registered, topic, order(**FULL))
    send(registered, topic, full, by_confluent(registered, topic, order()), None)
    table = table_of(registered, topic)
    assert table.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert table.schema.field("places").type == pa.map_(pa.int32(), pa.struct([("city", pa.string())]))
    rows = table.to_arrow().to_pylist()
    rows[0]["counts"].sort()
    assert rows[0] == FULL_ROW
    assert rows[1] == EMPTY_ROW
    assert set(rows[2].values()) == {None}
    assert table.last.bad_values == 0


def test_table_equals_the_output_of_confluents_deserializer(registered: EmbeddedBroker, order: Any) -> None:
    topic, _ = topic_of(registered)
    sent = [
        order(**FULL),
        order(),
        order(id=-1, invoice={"city": "Ulm"}, states=[0, 1, 0], at={"seconds": -5}),
    ]
    values = [by_confluent(registered, topic, message) for message in sent]
    send(registered, topic, *values)
    with SchemaRegistryClient({"url": registered.registry_url}) as client:
        read = ProtobufDeserializer(order, {"use.deprecated.format": False}, client)
        messages = [read(value, SerializationContext(topic, MessageField.VALUE)) for value in values]
    rows = table_of(registered, topic).to_arrow().to_pylist()
    assert [as_json(message) for message in messages] == [as_json(order(**_fields(row))) for row in rows]


def as_json(message: Any) -> Any:
    return MessageToDict(message, always_print_fields_with_no_presence=True)


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row to the fields of a message."""
    kept = {name: value for name, value in row.items() if value is not None and name != "_error"}
    for name in ("counts", "places"):
        kept[name] = dict(kept[name])
    kept["large"] = int(kept["large"])
    if "nickname" in kept:
        kept["nickname"] = {"value": kept["nickname"]}
    if "extra" in kept:
        kept["extra"] = json.loads(kept["extra"])
    if "tree" in kept:
        kept["tree"]["children"] = [json.loads(child) for child in kept["tree"]["children"]]
    return kept


def test_values_that_do_not_fit_are_null_with_a_reason(registered: EmbeddedBroker, order: Any) -> None:
    topic, schema_id = topic_of(registered)
    good = by_confluent(registered, topic, order(id=5))
    with SchemaClient(registered.registry_url) as client:
        other = client.register("something", Schema("AVRO", '"string"'))
    note = encode(schema_id, join_message_index((0,), b"\x0a\x01x"))
    send(
        registered, topic, good, b"no schema", encode(9999, b"\0x"), encode(other, b"\0x"), note,
        encode(schema_id, join_message_index((77,), b"")), good[:-1], good, encode(schema_id, b"\xff"),
    )  # fmt: skip
    table = table_of(registered, topic)
    rows = table.to_arrow(["id", "_error", "_offset"]).to_pylist()
    assert [row["id"] for row in rows] == [5, *[None] * 6, 5, None]
    reasons = [
        "does not begin with a schema id",
        "its schema 9999 is not in the registry",
        "its schema is AVRO, not PROTOBUF",
        "message type is shop.Note, not shop.Order",
        "no message at [77]",
        "no shop.Order",
    ]
    for row, reason in zip(rows[1:], reasons, strict=False):
        assert reason in row["_error"]
    assert "truncated" in rows[8]["_error"]
    assert table.last.bad_values == 7


def test_older_and_newer_writers_are_read_by_field_numbers(registered: EmbeddedBroker, order: Any) -> None:
    old = 'syntax = "proto3"; package shop; message Order { int64 number = 1; string gone = 99; }'
    new = 'syntax = "proto3"; package shop; message Order { int64 id = 1; string added = 2; }'
    topic = registered.create_topic(partitions=1)
    with SchemaClient(registered.registry_url) as client:
        client.request("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})
        first = client.register(f"{topic}-value", Schema("PROTOBUF", old))
        second = client.register(f"{topic}-value", Schema("PROTOBUF", new))
    send(registered, topic, encode(first, b"\0\x08\x07\x9a\x06\x01x"), encode(second, b"\0\x08\x08\x12\x01y"))
    rows = table_of(registered, topic).to_arrow().to_pylist()
    assert rows == [
        {"id": 7, "added": "", "_error": None},
        {"id": 8, "added": "y", "_error": None},
    ]


def test_the_columns_of_a_topic_without_values_are_those_of_the_first_message(
    registered: EmbeddedBroker, order: Any
) -> None:
    topic, _ = topic_of(registered)
    assert table_of(registered, topic).columns == ["text", "_error"]


def test_sql_and_consume_read_messages(registered: EmbeddedBroker, order: Any) -> None:
    topic, _ = topic_of(registered)
    orders = [
        order(id=number, state=number % 2, lines=[{"sku": "a", "count": number}]) for number in range(6)
    ]
    send(registered, topic, *(by_confluent(registered, topic, one) for one in orders))
    cli = Cli(registered.bootstrap_servers)
    query = f'select state, sum(id) as ids, sum(lines[1].count) as n from "{topic}" group by 1 order by 1'
    found = cli.ok("sql", query, "--registry", registered.registry_url, "-o", "json")
    rows = [json.loads(line) for line in found.out.splitlines()]
    assert [(row["state"], int(row["ids"]), int(row["n"])) for row in rows] == [
        ("OPEN", 6, 6),
        ("PAID", 9, 9),
    ]
    arguments = ("consume", topic, "-s", "beginning", "-e", "--schema", "--registry", registered.registry_url)
    shown = cli.ok(*arguments, "--where", 'record.value.state == "PAID"')
    assert [json.loads(line)["id"] for line in shown.out.splitlines()] == ["1", "3", "5"]


def test_sparks_source_has_the_same_rows(registered: EmbeddedBroker, order: Any) -> None:
    topic, _ = topic_of(registered)
    send(registered, topic, by_confluent(registered, topic, order(**FULL)), b"bad", None)
    options = {
        "kafka.bootstrap.servers": registered.bootstrap_servers,
        "subscribe": topic,
        "value.format": "protobuf",
        "value.registry": registered.registry_url,
        "value.protobuf.message": "shop.Order",
    }
    reader = make_reader(options, schema_of(options))
    assert isinstance(reader, BatchReader)
    found = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    names = [name for name in FULL_ROW if name != "_error"]
    table = table_of(registered, topic).to_arrow(names).to_pylist()
    assert [{name: row[name] for name in names} for row in found] == table
    with pytest.raises(OptionError, match=r"has no message shop\.Nobody"):
        schema_of({**options, "value.protobuf.message": "shop.Nobody"})
    without = {name: value for name, value in options.items() if name != "value.registry"}
    assert schema_of(without) == schema_of(options), "the cluster names its registry"
    with pytest.raises(OptionError, match=r"the message shop\.Order has id"):
        make_reader(
            {**options, "value.schema": "unknown STRING"},
            schema_of({**options, "value.schema": "unknown STRING"}),
        )


def test_messages_that_grow_without_end_are_refused(
    registered: EmbeddedBroker, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protobuf_columns, "MAX_FIELDS", 200)
    levels = [f"message L{level} {{ L{level + 1} a = 1; L{level + 1} b = 2; }}" for level in range(12)]
    text = f'syntax = "proto3"; {" ".join(levels)} message L12 {{ int32 a = 1; }}'
    with pytest.raises(SchemaError, match="more than 200 fields"):
        table_of(registered, topic_of(registered, text)[0])
