"""JSON Schema compatibility: single rules, and readers accept all values of compatible writers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from barnabas.services.registry.compatibility.json_schema import problems
from barnabas.services.registry.formats.json_schema import parse_json_schema
from barnabas.services.registry.limits import SchemaLimits, StepBudget

STEPS = 10_000
OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
MORE: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
CLOSED = {**OPEN, "additionalProperties": False}
CLOSED_MORE = {**MORE, "additionalProperties": False}
LIST: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
TUPLE: dict[str, Any] = {"type": "array", "items": [{"type": "integer"}]}
PREFIX: dict[str, Any] = {"type": "array", "prefixItems": [{"type": "integer"}]}
TREE = {
    "$defs": {"t": {"type": "object", "properties": {"next": {"$ref": "#/$defs/t", "maxProperties": 2}}}},
    "$ref": "#/$defs/t",
}


def reads(reader: Any, writer: Any, steps: int = STEPS) -> bool:
    found = problems(
        parse_json_schema(json.dumps(reader), {}),
        parse_json_schema(json.dumps(writer), {}),
        StepBudget(steps),
    )
    return not found


@pytest.mark.parametrize(
    ("reader", "writer", "fits"),
    [
        (MORE, OPEN, False),  # an optional property is added to an open object
        (OPEN, MORE, True),
        (CLOSED_MORE, CLOSED, True),
        (CLOSED, CLOSED_MORE, False),
        ({**CLOSED_MORE, "required": ["b"]}, CLOSED, False),
        ({"type": "number"}, {"type": "integer"}, True),
        ({"type": "integer"}, {"type": "number"}, False),
        ({"type": ["string", "null"]}, {"type": "string"}, True),
        ({"type": "string"}, {"type": ["string", "null"]}, False),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, True),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, False),
        ({"enum": ["a", "b"]}, {"const": "a"}, True),
        ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 3}, True),
        ({"type": "string", "maxLength": 3}, {"type": "string"}, False),
        ({"type": "string", "pattern": "a+"}, {"type": "string"}, False),
        ({"type": "number", "maximum": 3}, {"type": "number", "exclusiveMaximum": 3}, True),
        ({"type": "number", "exclusiveMaximum": 3}, {"type": "number", "maximum": 3}, False),
        ({"type": "number", "multipleOf": 2}, {"type": "number", "multipleOf": 4}, True),
        ({"type": "number", "multipleOf": 4}, {"type": "number", "multipleOf": 2}, False),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "string"}, True),
        ({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, False),
        (
            {"type": "array", "items": {"type": "number"}},
            {"type": "array", "items": {"type": "integer"}},
            True,
        ),
        ({"type": "array", "items": {"type": "integer"}}, {"type": "array"}, False),
        (TUPLE, LIST, False),
        (LIST, TUPLE, False),
        (LIST, {**TUPLE, "additionalItems": {"type": "integer"}}, False),
        (PREFIX, LIST, False),
        (LIST, {**PREFIX, "items": {"type": "integer"}}, False),
        (PREFIX, {**PREFIX, "items": False}, True),
        ({"type": "array", "items": True}, TUPLE, True),
        ({"type": "array", "items": [{}]}, LIST, True),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, False),
        ({"not": {"type": "string"}}, {"type": "string"}, False),
        (True, {"type": "string"}, True),
        ({"type": "string"}, False, True),  # nothing was written
        (False, True, False),
        ({"type": "object", "properties": {"a": {}}}, {"type": "object"}, True),
        ({"type": "string"}, True, False),
        (TREE, TREE, True),
        ({**TREE, "title": "another"}, TREE, True),
        ({"allOf": [{"type": "integer"}, {"maximum": 5}]}, {"type": "integer", "maximum": 3}, True),
        ({"allOf": [{"type": "integer"}, {"maximum": 5}]}, {"type": "integer"}, False),
    ],
)
def test_the_rules(reader: Any, writer: Any, fits: bool) -> None:
    assert reads(reader, writer) is fits


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "abc", "abcdef"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Any:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(
            st.sampled_from([True, {"type": "string"}, {"type": "integer"}, {"type": "number", "maximum": 3}])
            | st.builds(
                lambda low, high: {"type": "string", "minLength": low, "maxLength": high},
                *[st.integers(0, 4)] * 2,
            )
            | st.lists(st.sampled_from(["a", "abc", 1, None]), min_size=1, unique=True).map(
                lambda v: {"enum": v}
            )
        )
    inner = schemas(depth - 1)
    kind = draw(st.sampled_from(["object", "array", "anyOf", "allOf"]))
    if kind == "array":
        return {"type": "array", "items": draw(inner)}
    if kind in ("anyOf", "allOf"):
        return {kind: [draw(inner), draw(inner)]}
    node: dict[str, Any] = {
        "type": "object",
        "properties": {name: draw(inner) for name in draw(st.sets(st.sampled_from("ab")))},
    }
    if draw(st.booleans()):
        node["additionalProperties"] = draw(st.booleans() | inner)
    if draw(st.booleans()):
        node["required"] = [draw(st.sampled_from("ab"))]
    return node


@settings(max_examples=150, deadline=None)
@given(schemas(), schemas(), st.lists(VALUES, min_size=5, max_size=20))
def test_values_of_a_compatible_writer_are_readable(reader: Any, writer: Any, values: list[Any]) -> None:
    if not reads(reader, writer):
        return
    new, old = Draft202012Validator(reader), Draft202012Validator(writer)
    for value in values:
        if old.is_valid(value):
            assert new.is_valid(value), value


def referring(word: str, schemas: list[Any]) -> dict[str, Any]:
    """A schema whose alternatives, or parts, are references: its text without `$defs` depends on the number only."""
    references = [{"$ref": f"#/$defs/{at}"} for at in range(len(schemas))]
    return {"$defs": dict(enumerate(schemas)), word: references}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["anyOf", "oneOf", "allOf"]), schemas(), schemas())
def test_reference_resolves_to_its_target(word: str, reader: Any, writer: Any) -> None:
    inline = reads({word: [reader, reader]}, {word: [writer, writer]})
    assert reads(referring(word, [reader, reader]), referring(word, [writer, writer])) is inline


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
def test_a_change_behind_an_unchanged_reference_counts(word: str) -> None:
    assert not reads(referring(word, [CLOSED, LIST]), referring(word, [CLOSED_MORE, LIST]))
    assert reads(referring(word, [CLOSED_MORE, LIST]), referring(word, [CLOSED, LIST]))


def test_many_references_with_one_change_are_within_the_default_limits() -> None:
    alternatives = [{"type": "object", "properties": {"kind": {"const": at}}} for at in range(500)]
    changed = [{**alternatives[0], "required": ["kind"]}, *alternatives[1:]]
    for word in ("anyOf", "oneOf"):
        assert reads(referring(word, alternatives), referring(word, changed), steps=SchemaLimits().max_steps)


@settings(max_examples=50, deadline=None)
@given(schemas())
def test_a_schema_reads_itself(schema: Any) -> None:
    assert reads(schema, json.loads(json.dumps(schema)))
