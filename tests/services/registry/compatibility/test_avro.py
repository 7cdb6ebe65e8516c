"""Compatible means that a reader reads it: whatever the registry lets through, fastavro reads."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.utils import generate_one
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.services.registry.compatibility.avro import problems
from barnabas.services.registry.formats.avro import parse_avro

# Without bytes: the specification lets them be read as strings, which works for those that are UTF-8.
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
def test_what_is_compatible_is_read(reader: dict[str, Any], writer: dict[str, Any]) -> None:
    found = problems(parse_avro(json.dumps(reader)), parse_avro(json.dumps(writer)))
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
    assert problems(parsed, parsed) == []
    assert parse_avro(parsed.text).text == parsed.text
    assert parse_schema(json.loads(parsed.text))["name"] == "R"


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
    assert (problems(parse_avro(reader), parse_avro(writer)) == []) is fits
