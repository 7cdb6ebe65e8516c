"""Columns encoded as registry values: confluent-kafka's deserializers read them, in any shape."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.schemas import RegistryAccount, Schema, SchemaClient
from barnabas.client.schemas.serdes import SchemaDecoder
from barnabas.tables.encoding.registering import RECORD, TOPIC_RECORD, Kind, WriteFormat, framed_format
from barnabas.tables.errors import BadValueError, SchemaError
from barnabas.testing import EmbeddedBroker

AT = datetime(2026, 11, 19, 1, 2, 3, 4, tzinfo=UTC)
INNER = pa.struct([("city", pa.string()), ("zip", pa.int32())])
ORDER = pa.struct(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("price", pa.float64()),
        ("ratio", pa.float32()),
        ("paid", pa.bool_()),
        ("note", pa.string()),
        ("data", pa.binary()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.list_(pa.int32())),
        ("place", INNER),
        ("places", pa.list_(INNER)),
        ("extra", pa.map_(pa.string(), pa.int64())),
    ]
)
WITHOUT_PROTOBUF = pa.struct([*ORDER, ("day", pa.date32()), ("amount", pa.decimal128(12, 2))])
ROW: dict[str, Any] = {
    "id": -7_000_000_000,
    "small": 300,
    "price": 1.5,
    "ratio": -0.25,
    "paid": True,
    "note": 'ä "quoted"\n\u0001',
    "data": b"\0\xff",
    "at": AT,
    "tags": ["a", "", "c"],
    "counts": [0, -1, 300],
    "place": {"city": "Bern", "zip": 3000},
    "places": [{"city": None, "zip": 1}, {"city": "x", "zip": None}],
    "extra": [("k", 1), ("m", -1)],
}
FULL = {**ROW, "day": date(2026, 11, 19), "amount": Decimal("-1234.50")}
EMPTY: dict[str, Any] = {**dict.fromkeys(FULL), "tags": [], "counts": [], "places": [], "extra": []}
KINDS: tuple[Kind, ...] = ("avro", "json", "protobuf")
ROWS: list[Any] = [FULL, dict.fromkeys(FULL), None, EMPTY, {**FULL, "id": 1}]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as running:
        yield running


@pytest.fixture
def registry(broker: EmbeddedBroker) -> RegistryAccount:
    return RegistryAccount.at(broker.registry_url)


def encoded(wanted: WriteFormat, topic: str, kind: pa.DataType, rows: list[Any]) -> list[bytes | None]:
    encode = framed_format(wanted, topic, kind).encoder(kind)
    column = pa.array(rows, kind)
    complete = encode(column).to_pylist()
    for first, last in ((1, len(rows)), (2, 3), (0, 0)):  # slices, and no rows at all
        assert encode(column[first:last]).to_pylist() == complete[first:last]
    assert isinstance(complete, list)
    return complete


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def as_dict(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None or row["extra"] is None:
        return row
    return {**row, "extra": dict(row["extra"])}


def test_confluents_deserializer_reads_avro(broker: EmbeddedBroker, registry: RegistryAccount) -> None:
    topic = f"avro-{broker.next_number()}"
    found = encoded(WriteFormat("avro", registry=registry), topic, WITHOUT_PROTOBUF, ROWS)
    with SchemaRegistryClient({"url": registry.url}) as client:
        read = AvroDeserializer(client)
        assert [read(value, context(topic)) for value in found] == [as_dict(row) for row in ROWS]


def test_confluents_deserializer_reads_and_validates_json(
    broker: EmbeddedBroker, registry: RegistryAccount
) -> None:
    topic = f"json-{broker.next_number()}"
    rows = [*ROWS, {**FULL, "price": float("nan"), "ratio": float("inf")}]
    found = encoded(WriteFormat("json", registry=registry), topic, WITHOUT_PROTOBUF, rows)
    with SchemaRegistryClient({"url": registry.url}) as client:
        schema = client.get_latest_version(f"{topic}-value").schema
        read = JSONDeserializer(schema.schema_str, schema_registry_client=client)
        rows_read = [read(value, context(topic)) for value in found]
    assert rows_read[0] == {
        **FULL,
        "data": base64.b64encode(FULL["data"]).decode(),
        "at": "2026-11-19T01:02:03.000004Z",
        "day": "2026-11-19",
        "amount": -1234.5,
        "extra": {"k": 1, "m": -1},
    }
    assert rows_read[1] == dict.fromkeys(FULL)
    assert rows_read[2] is None
    assert rows_read[3] == {**EMPTY, "extra": {}}
    assert (rows_read[5]["price"], rows_read[5]["ratio"]) == (None, None)


def test_protobuf_is_read_by_its_descriptor(broker: EmbeddedBroker, registry: RegistryAccount) -> None:
    topic = f"protobuf-{broker.next_number()}"
    rows = [row if row is None else {name: row[name] for name in ROW} for row in ROWS]
    found = encoded(WriteFormat("protobuf", registry=registry, record="shop.Order"), topic, ORDER, rows)
    with registry.client() as client:
        read = SchemaDecoder(client)
        first, nulls = read(found[0] or b""), read(found[1] or b"")
        assert read(found[3] or b"") == {}
    assert nulls == {}
    assert found[2] is None
    assert first == {
        **ROW,
        "id": str(ROW["id"]),
        "data": base64.b64encode(ROW["data"]).decode(),
        "at": "2026-11-19T01:02:03.000004Z",
        "places": [{"zip": 1}, {"city": "x"}],
        "extra": {"k": "1", "m": "-1"},
    }


NUMBERS = pa.struct([("n", pa.int64()), ("l", pa.list_(pa.int64())), ("t", pa.string()), ("d", pa.float64())])
LONG = st.integers(-(2**63), 2**63 - 1)
NUMBER_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | LONG,
            "l": st.none() | st.lists(LONG, max_size=3),
            "t": st.none() | st.text(max_size=5),
            "d": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        }
    ),
    max_size=5,
)


@settings(max_examples=40, deadline=None)
@given(rows=NUMBER_ROWS)
def test_every_number_and_text_is_read_as_it_was_written(
    broker: EmbeddedBroker, rows: list[dict[str, Any]]
) -> None:
    registry = RegistryAccount.at(broker.registry_url)
    with registry.client() as client:
        read = SchemaDecoder(client)
        for kind in KINDS:
            wanted = WriteFormat(kind, registry=registry)
            found = [read(value) for value in _framed(wanted, f"numbers-{kind}", rows)]
            if kind == "protobuf":
                found = [_plain(row) for row in found]
                rows = [{**row, "l": row["l"] or None} for row in rows]
            assert found == rows


def _framed(wanted: WriteFormat, topic: str, rows: list[dict[str, Any]]) -> list[bytes]:
    found: list[bytes] = (
        framed_format(wanted, topic, NUMBERS).encoder(NUMBERS)(pa.array(rows, NUMBERS)).to_pylist()
    )
    return found


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Protobuf's JSON has 64-bit integers as text, and absent fields not at all."""
    numbers = [int(one) for one in row["l"]] if "l" in row else None
    return {"n": int(row["n"]) if "n" in row else None, "l": numbers, "t": row.get("t"), "d": row.get("d")}


def test_a_new_column_is_a_new_version_and_another_type_is_refused(
    broker: EmbeddedBroker, registry: RegistryAccount
) -> None:
    one = pa.struct([("b", pa.int32()), ("a", pa.string())])
    two = pa.struct([("a", pa.string()), ("c", pa.list_(INNER)), ("b", pa.int64())])
    wrong = pa.struct([("a", pa.int64())])
    for kind in KINDS:
        wanted = WriteFormat(kind, registry=registry)
        topic = f"evolving-{kind}"
        first = framed_format(wanted, topic, one)
        assert framed_format(wanted, topic, one).schema_id == first.schema_id
        if kind == "protobuf":
            two = pa.struct([("a", pa.string()), ("c", pa.list_(INNER)), ("b", pa.int32())])
        second = framed_format(wanted, topic, two)
        assert second.schema_id != first.schema_id
        value = second.encoder(two)(pa.array([{"a": "x", "b": 7, "c": []}], two))[0].as_py()
        with registry.client() as client:
            assert client.latest(f"{topic}-value").version == 2
            assert {name: SchemaDecoder(client)(value)[name] for name in ("a", "b")} == {"a": "x", "b": 7}
        with pytest.raises(
            SchemaError, match=rf"{topic}-value.*(Incompatible|is int64, and the schema has string)"
        ):
            framed_format(wanted, topic, wrong)
    with registry.client() as client:
        text = client.latest("evolving-protobuf-value").schema.text
    assert [line.split()[-3] for line in text.splitlines() if "optional" in line][:2] == ["b", "a"]


def test_subjects_follow_confluents_strategies(registry: RegistryAccount) -> None:
    kind = pa.struct([("id", pa.int64())])
    for strategy, subject in ((RECORD, "shop.Order"), (TOPIC_RECORD, "strategies-shop.Order")):
        framed_format(
            WriteFormat("avro", strategy=strategy, record="shop.Order", registry=registry), "strategies", kind
        )
        with registry.client() as client:
            assert json.loads(client.latest(subject).schema.text)["name"] in ("Order", "shop.Order")
    framed_format(WriteFormat("avro", is_key=True, registry=registry), "strategies", pa.string())
    with registry.client() as client:
        assert client.latest("strategies-key").schema.text == '"string"'
    with pytest.raises(SchemaError, match=r"set the option 'value\.record\.name'"):
        WriteFormat("avro", strategy=RECORD).subject("t")
    with pytest.raises(SchemaError, match="needs one topic"):
        WriteFormat("avro").subject(None)


LATEST = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "country", "type": {"type": "enum", "name": "Country", "symbols": ["AT", "DE"]}},
        {"name": "hash", "type": ["null", {"type": "fixed", "name": "Hash", "size": 2}]},
        {"name": "source", "type": "string", "default": "shop"},
    ],
}


def test_the_latest_version_is_used_as_it_is(registry: RegistryAccount) -> None:
    wanted = WriteFormat("avro", uses_latest=True, registry=registry)
    kind = pa.struct([("id", pa.int32()), ("country", pa.string()), ("hash", pa.binary())])
    with pytest.raises(
        SchemaError, match=r"the newest schema of subject latest-value is not known: .*not found"
    ):
        framed_format(wanted, "latest", kind)
    with registry.client() as client:
        client.register("latest-value", Schema("AVRO", json.dumps(LATEST)))
    encode = framed_format(wanted, "latest", kind).encoder(kind)
    value = encode(pa.array([{"id": 1, "country": "DE", "hash": b"ab"}], kind))[0].as_py()
    with registry.client() as client:
        read = SchemaDecoder(client)(value)
    assert read == {"id": 1, "country": "DE", "hash": b"ab", "source": "shop"}
    for row, problem in (
        ({"id": None, "country": "DE"}, "id is null in a row, and the schema requires a value"),
        ({"id": 1, "country": "FR"}, "country is 'FR' in a row, which is not a symbol of Country"),
        ({"id": 1, "country": "DE", "hash": b"abc"}, "hash of a row does not have the 2 bytes"),
    ):
        with pytest.raises(BadValueError, match=problem):
            encode(pa.array([row], kind))
    for other, problem in (
        (pa.struct([("id", pa.string()), ("country", pa.string())]), "id is string, and the schema has long"),
        (pa.struct([("id", pa.int64())]), "requires the field country"),
        (pa.struct([*kind, ("more", pa.int64())]), "has no field more"),
    ):
        with pytest.raises(SchemaError, match=problem):
            framed_format(wanted, "latest", other)


def test_without_registration_the_schema_must_be_there(registry: RegistryAccount) -> None:
    kind = pa.struct([("id", pa.int64())])
    reading = WriteFormat("json", registers=False, registry=registry)
    with pytest.raises(
        SchemaError, match=r"does not have the schema of the rows, and auto\.register\.schemas is false"
    ):
        framed_format(reading, "unregistered", kind)
    framed_format(WriteFormat("json", registry=registry), "unregistered", kind)
    with SchemaClient(registry.url) as client:
        assert (
            framed_format(reading, "unregistered", kind).schema_id == client.latest("unregistered-value").id
        )


@pytest.mark.parametrize(
    ("kind", "type_", "problem"),
    [
        ("avro", pa.struct([("a-b", pa.int32())]), "'a-b' is not a valid field name"),
        ("avro", pa.struct([("a", pa.map_(pa.int32(), pa.int32()))]), "which Avro does not have"),
        ("protobuf", pa.string(), "a Protobuf message needs a struct"),
        ("protobuf", pa.struct([("a", pa.date32())]), "which Protobuf does not have: cast it to string"),
        ("protobuf", pa.struct([("a", pa.list_(pa.list_(pa.int32())))]), "no lists of lists"),
    ],
)
def test_a_type_that_a_format_lacks_is_named(
    registry: RegistryAccount, kind: Any, type_: pa.DataType, problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        framed_format(WriteFormat(kind, registry=registry), "types", type_)
