"""Schemas as text: one field a line, the difference of two versions, and the fields that changed."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

INDENT = 2
MAX_WIDTH = 88
"""Longest object or array on one line."""
MAX_COMPARED = 4000
"""Lines of a schema: the comparison takes quadratic time."""
MAX_DEPTH = 200
CONTEXT = 3
"""Unchanged lines shown around a change."""

_PROTO_FIELD = re.compile(
    r"^\s*(?:repeated\s+|optional\s+|required\s+)?[\w.<>, ]+\s+(\w+)\s*=\s*\d+", re.MULTILINE
)


class DiffLine(msgspec.Struct):
    kind: Literal["same", "added", "removed", "folded"]
    text: str
    """Of a folded line: the number of hidden lines."""
    before: int | None = None
    after: int | None = None
    """Line numbers, from 1."""


class FieldChanges(msgspec.Struct):
    added: list[str]
    removed: list[str]
    changed: list[str]


def pretty(kind: str, text: str) -> str:
    """Reformat Avro and JSON with one short object per line. Protobuf and invalid JSON are unchanged."""
    if kind == "PROTOBUF":
        return text
    try:
        return "".join(_lines(json.loads(text), 0))
    except (ValueError, RecursionError):
        return text


def _lines(value: Any, depth: int) -> Iterator[str]:
    short = json.dumps(value, ensure_ascii=False)
    is_object = isinstance(value, dict)
    fits = len(short) + depth * INDENT <= MAX_WIDTH and not _has_list_of_objects(value)
    if fits or not isinstance(value, dict | list) or not value or depth >= MAX_DEPTH:
        yield short
        return
    inner, outer = " " * INDENT * (depth + 1), " " * INDENT * depth
    named = value.items() if isinstance(value, dict) else [(None, each) for each in value]
    pairs = [("" if k is None else f"{json.dumps(k, ensure_ascii=False)}: ", v) for k, v in named]
    yield "{" if is_object else "["
    for number, (name, each) in enumerate(pairs):
        yield f"{',' if number else ''}\n{inner}{name}"
        yield from _lines(each, depth + 1)
    yield f"\n{outer}{'}' if is_object else ']'}"


def _has_list_of_objects(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(each, dict) for each in value)
    return isinstance(value, dict) and any(map(_has_list_of_objects, value.values()))


def compare(before: str, after: str) -> list[DiffLine]:
    """Lines of both texts in order; empty if they are equal, or too long to compare."""
    old, new = before.splitlines(), after.splitlines()
    if old == new or max(len(old), len(new)) > MAX_COMPARED:
        return []
    found: list[DiffLine] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            found += _unchanged(new, a, c, d, is_first=a == 0, is_last=b == len(old))
            continue
        found += [DiffLine("removed", old[at], at + 1) for at in range(a, b)]
        found += [DiffLine("added", new[at], None, at + 1) for at in range(c, d)]
    return found


def _unchanged(
    new: Sequence[str], old_at: int, start: int, end: int, *, is_first: bool, is_last: bool
) -> list[DiffLine]:
    """Lines of an equal part; those far from a change are one folded line."""
    lines = [DiffLine("same", new[at], old_at + at - start + 1, at + 1) for at in range(start, end)]
    head, tail = 0 if is_first else CONTEXT, 0 if is_last else CONTEXT
    hidden = len(lines) - head - tail
    if hidden <= 1:
        return lines
    return [*lines[:head], DiffLine("folded", str(hidden)), *lines[len(lines) - tail :]]


def field_changes(kind: str, before: str, after: str) -> FieldChanges:
    """Fields that exist in only one of two schemas, by path, and those whose declaration changed."""
    old, new = fields_of(kind, before), fields_of(kind, after)
    return FieldChanges(
        [name for name in new if name not in old],
        [name for name in old if name not in new],
        [name for name in new if name in old and new[name] != old[name]],
    )


def fields_of(kind: str, text: str) -> dict[str, str]:
    """Declarations by field path, such as `payment.method`; empty for a schema that cannot be read."""
    if kind == "PROTOBUF":
        return {found[1]: found[0].strip() for found in _PROTO_FIELD.finditer(text)}
    try:
        return dict(_json_fields(json.loads(text), "", 0))
    except (ValueError, RecursionError):
        return {}


def _json_fields(schema: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Fields of Avro records, properties of JSON Schema. The declaration of a record field omits its inner fields."""
    if depth > MAX_DEPTH:
        return
    if isinstance(schema, list):
        for each in schema:
            yield from _json_fields(each, path, depth + 1)
    if not isinstance(schema, dict):
        return
    named = [(each.get("name"), each) for each in _listed(schema.get("fields")) if isinstance(each, dict)]
    if isinstance(schema.get("properties"), dict):
        named += list(schema["properties"].items())
    for name, each in named:
        inner = list(_json_fields(each, f"{path}{name}.", depth + 1))
        own = {k: v for k, v in each.items() if k != "type"} if inner and isinstance(each, dict) else each
        yield f"{path}{name}", json.dumps(own, sort_keys=True)
        yield from inner
    for key in ("type", "items", "values"):
        if isinstance(schema.get(key), dict | list):
            yield from _json_fields(schema[key], path, depth + 1)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
