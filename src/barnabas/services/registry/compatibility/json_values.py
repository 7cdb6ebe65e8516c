"""JSON Schema keywords for types, values, numbers and sizes: finds those that a reader has narrowed."""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.services.registry.formats.json_schema import TYPES, Node
from barnabas.services.registry.formats.parser import Path, compact


class Problem(NamedTuple):
    """An incompatibility, formatted only when reported."""

    kind: str
    where: Path
    text: str

    def __str__(self) -> str:
        return f'{{errorType:"{self.kind}", description:"The {self.text} at path \'{self.where}\'"}}'


_UPPER = (("maxLength", "string"), ("maxItems", "array"), ("maxProperties", "object"))
_LOWER = (("minLength", "string"), ("minItems", "array"), ("minProperties", "object"))


def value_problems(reader: Node, writer: Node, where: Path) -> list[Problem]:
    """Compare types, enum and const."""
    lost = _types(writer) - _types(reader)
    if lost and not _values_fit(writer, reader):
        kind = "TYPE_NARROWED" if _types(writer) & _types(reader) else "TYPE_CHANGED"
        return [Problem(kind, where, f"reader does not take {', '.join(sorted(lost))}")]
    reader_value, others = _values(reader), _values(writer)
    if reader_value is None:
        return []
    if others is None or not others <= reader_value:
        return [Problem("ENUM_ARRAY_NARROWED", where, "reader's list of values lacks some of the writer's")]
    return []


def number_problems(reader: Node, writer: Node, where: Path) -> list[Problem]:
    if not _types(writer) & {"number", "integer"}:
        return []
    found = []
    for word, sign in (("Maximum", 1), ("Minimum", -1)):
        reader_value, others = _bound(reader, word, sign), _bound(writer, word, sign)
        if reader_value is not None and (others is None or others > reader_value):
            found.append(Problem(f"{word.upper()}_ADDED_OR_TIGHTENED", where, f"{word.lower()} is tighter"))
    step = reader.get("multipleOf")
    if step is not None:
        other = writer.get("multipleOf")
        if other is None or not _is_multiple(other, step):
            found.append(
                Problem(
                    "MULTIPLE_OF_CHANGED", where, "reader wants multiples that the writer does not keep to"
                )
            )
    return found


def size_problems(reader: Node, writer: Node, where: Path) -> list[Problem]:
    """Compare string lengths and patterns, and numbers of items and properties."""
    found = []
    types = _types(writer)
    for word, kind in _UPPER:
        if word in reader and kind in types and (word not in writer or writer[word] > reader[word]):
            found.append(Problem(f"{_constant(word)}_ADDED_OR_DECREASED", where, f"{word} is tighter"))
    for word, kind in _LOWER:
        if kind in types and reader.get(word, 0) > writer.get(word, 0):
            found.append(Problem(f"{_constant(word)}_ADDED_OR_INCREASED", where, f"{word} is tighter"))
    if "pattern" in reader and "string" in types and reader["pattern"] != writer.get("pattern"):
        found.append(Problem("PATTERN_ADDED_OR_CHANGED", where, "pattern is new"))
    return found


def _types(node: Node) -> set[str]:
    """Accepted types; `number` includes `integer`."""
    listed = node.get("type")
    if listed is None:
        values = _values(node)
        return set(TYPES) if values is None else {_type_of(value) for value in _raw_values(node)}
    types = set(listed) if isinstance(listed, list) else {listed}
    return types | {"integer"} if "number" in types else types


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _values(node: Node) -> set[str] | None:
    """Allowed values as comparable texts; None if any value is allowed."""
    if "enum" not in node and "const" not in node:
        return None
    return {compact(value, sort_keys=True) for value in _raw_values(node)}


def _raw_values(node: Node) -> list[Any]:
    return [node["const"]] if "const" in node else list(node["enum"])


def _values_fit(writer: Node, reader: Node) -> bool:
    """True if the reader accepts the types of the writer's listed values, even if the writer's `type` is wider."""
    if _values(writer) is None:
        return False
    return {_type_of(value) for value in _raw_values(writer)} <= _types(reader)


def _bound(node: Node, word: str, sign: int) -> tuple[float, bool] | None:
    """Limit with a flag that is True if it is inclusive; a larger tuple is a looser bound."""
    plain, exclusive = node.get(word.lower()), node.get(f"exclusive{word}")
    if isinstance(exclusive, bool):  # draft 4
        return None if plain is None else (sign * plain, not exclusive)
    limits = [(sign * plain, True)] if plain is not None else []
    if exclusive is not None:
        limits.append((sign * exclusive, False))
    return min(limits) if limits else None


def _is_multiple(number: float, of: float) -> bool:
    if isinstance(number, int) and isinstance(of, int):
        return number % of == 0
    try:
        return abs(number / of - round(number / of)) < 1e-9
    except OverflowError:  # the quotient is too large for a float
        return False


def _constant(word: str) -> str:
    return "".join(f"_{one}" if one.isupper() else one.upper() for one in word).upper()
