"""Avro compatibility: fastavro reads whatever the registry accepts."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import SchemaParseException
from avro.name import Names
from avro.schema import make_avsc_object
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.utils import generate_one
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.services.registry.compatibility.avro import problems
from barnabas.services.registry.formats.avro import AvroSchema, parse_avro
from barnabas.services.registry.formats.parser import SchemaSyntaxError
from barnabas.services.registry.limits import StepBudget

STEPS = 10_000
# Without bytes: the specification lets them be read as strings, which works for UTF-8 only.
PRIMITIVES = st.sampled_from(["boolean", "int", "long", "float", "double", "string"])
DEFAULTS: dict[str, Any] = {
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 0.5,
    "double": 0.5,
    "string": "x",
}


def kinds() -> st.SearchStrategy[Any]:
    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        array = inner.map(lambda kind: {"type": "array", "items": kind})
        mapped = inner.map(lambda kind: {"type": "map", "values": kind})
        optional = PRIMITIVES.map(lambda kind: ["null", kind])
        return array | mapped | optional

    return st.recursive(PRIMITIVES, larger, max_leaves=4)


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    fields = []
    for name in draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=4)):
        kind = draw(kinds())
        field = {"name": name, "type": kind}
        if isinstance(kind, str) and draw(st.booleans()):
            field["default"] = DEFAULTS[kind]
        fields.append(field)
    symbols = draw(st.lists(st.sampled_from("XYZ"), unique=True, min_size=1))
    fields.append({"name": "e", "type": {"type": "enum", "name": "E", "symbols": symbols}})
    return {"type": "record", "name": "R", "fields": fields}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(records(), records())
def test_compatible_values_are_read(reader: dict[str, Any], writer: dict[str, Any]) -> None:
    found = problems(parse_avro(json.dumps(reader)), parse_avro(json.dumps(writer)), StepBudget(STEPS))
    if found:
        return
    old, new = parse_schema(writer), parse_schema(reader)
    for _ in range(3):
        out = io.BytesIO()
        schemaless_writer(out, old, generate_one(old))
        schemaless_reader(io.BytesIO(out.getvalue()), old, new)


@settings(max_examples=50, deadline=None)
@given(records())
def test_a_schema_reads_itself_and_its_kept_form_stays_as_it_is(schema: dict[str, Any]) -> None:
    parsed = parse_avro(json.dumps(schema))
    assert problems(parsed, parsed, StepBudget(STEPS)) == []
    assert parse_avro(parsed.text).text == parsed.text
    kept = parse_schema(json.loads(parsed.text))
    assert isinstance(kept, dict)
    assert kept["name"] == "R"


class Schemas:
    """Any schemas, with names in namespaces, aliases and circles."""

    def __init__(self, rng: random.Random) -> None:
        self.chance = rng
        self.names: list[str] = []

    def make(self, depth: int = 0) -> Any:
        kind = self.chance.choice(["primitive", "known", "array", "map", "union", "named", "named", "named"])
        if depth > 3 or kind == "primitive" or (kind == "known" and not self.names):
            return self.chance.choice(["null", "int", "long", "float", "double", "bytes", "string"])
        if kind == "known":
            return self.chance.choice(self.names)
        if kind in ("array", "map"):
            return {"type": kind, "items" if kind == "array" else "values": self.make(depth + 1)}
        return self.named(depth) if kind == "named" else [self.make(depth + 1) for _ in range(3)]

    def named(self, depth: int) -> Any:
        kind = self.chance.choice(["record", "record", "error", "enum", "fixed"])
        space, name = self.chance.choice(["", "x", "y.z"]), self.chance.choice("ABCDE")
        node: dict[str, Any] = {"type": kind, "name": name} | ({"namespace": space} if space else {})
        if self.chance.random() < 0.3:
            node["aliases"] = [self.chance.choice(["A", "B", "x.C", "y.z.D"])]
        if kind == "enum":
            symbols = self.chance.sample("PQRS", 2)
            return (
                node | {"symbols": symbols} | ({"default": symbols[0]} if self.chance.random() < 0.3 else {})
            )
        if kind == "fixed":
            return node | {"size": self.chance.choice([4, 8])}
        self.names.append(f"{space}.{name}" if space else name)
        return node | {"fields": [self.field(one, depth) for one in self.chance.sample("abcd", 3)]}

    def field(self, name: str, depth: int) -> Any:
        field: dict[str, Any] = {"name": name, "type": self.make(depth + 1)}
        if self.chance.random() < 0.3:
            field["default"] = None
        if self.chance.random() < 0.2:
            field["aliases"] = [self.chance.choice("abcd")]
        return field


def of_library(reader: AvroSchema, writer: AvroSchema) -> bool:
    """Errors are records to us; the library does not compare them."""
    made: list[Any] = [
        make_avsc_object(json.loads(one.text.replace('"type":"error"', '"type":"record"')), Names())
        for one in (reader, writer)
    ]
    found = ReaderWriterCompatibilityChecker().get_compatibility(*made)
    return found.compatibility is SchemaCompatibilityType.compatible


def test_the_library_of_avro_comes_to_the_same_result() -> None:
    rng, compared, fitting = random.Random(25), 0, 0
    while compared < 300:
        try:
            reader, writer = (parse_avro(json.dumps(Schemas(rng).make())) for _ in range(2))
            writer = reader if rng.random() < 0.5 else writer
            expected = of_library(reader, writer)
        except (SchemaSyntaxError, SchemaParseException):
            continue  # a name or a branch of a union is there twice
        fits = problems(reader, writer, StepBudget(STEPS)) == []
        assert fits is expected, (reader.text, writer.text)
        compared, fitting = compared + 1, fitting + fits
    assert 100 < fitting < 250


@pytest.mark.parametrize(
    ("reader", "writer", "fits"),
    [
        ('"long"', '"int"', True),
        ('"int"', '"long"', False),
        ('"string"', '"bytes"', True),
        ('["null","int"]', '"int"', True),
        ('"int"', '["null","int"]', False),
        ('{"type":"int","logicalType":"date"}', '"int"', True),
        ('{"type":"error","name":"R","fields":[]}', '{"type":"error","name":"R","fields":[]}', True),
        ('{"type":"error","name":"R","fields":[]}', '{"type":"error","name":"S","fields":[]}', False),
        ('{"type":"record","name":"a-b","fields":[]}', '{"type":"record","name":"a-b","fields":[]}', True),
        (
            '{"type":"enum","name":"E","symbols":["A"],"default":"A"}',
            '{"type":"enum","name":"E","symbols":["B"]}',
            True,
        ),
        ('{"type":"enum","name":"E","symbols":["A"]}', '{"type":"enum","name":"E","symbols":["B"]}', False),
    ],
)
def test_avros_rules(reader: str, writer: str, fits: bool) -> None:
    assert (problems(parse_avro(reader), parse_avro(writer), StepBudget(STEPS)) == []) is fits
