"""JSON Schema: a reader must accept every document that the writer's schema accepts, as far as this is decidable.

As with Confluent, adding an optional property to an open content model is incompatible, as writers may have used the
name for anything. Undecidable changes (of a pattern, of `not`) count as incompatible.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from barnabas.common.regex import PatternError, compile_for_long_texts
from barnabas.services.registry.compatibility.json_values import (
    Problem,
    number_problems,
    size_problems,
    value_problems,
)
from barnabas.services.registry.formats.json_schema import JsonSchema, Node
from barnabas.services.registry.formats.parser import Path
from barnabas.services.registry.limits import StepBudget

MAX_PROBLEMS = 100  # kept per pair of nodes, and reported
COMPILE_STEPS = 20  # cost of compiling a pattern, in compared pairs
SUMS, PRODUCT = ("oneOf", "anyOf"), "allOf"
ANNOTATIONS = frozenset(
    [
        *("$schema", "$id", "id", "$comment", "title", "description", "default", "examples", "$defs", "definitions"),
        *("readOnly", "writeOnly", "deprecated", "$anchor", "$vocabulary", "contentEncoding", "contentMediaType"),
    ]
)  # fmt: skip

Problems = list[Problem]


def problems(reader: JsonSchema, writer: JsonSchema, budget: StepBudget) -> list[str]:
    found = _Comparison(reader, writer, budget).between(reader.root, writer.root, Path("#"))
    return list(map(str, found))


class _Comparison:
    def __init__(self, reader: JsonSchema, writer: JsonSchema, budget: StepBudget) -> None:
        self.reader, self.writer = reader, writer
        self.budget = budget
        self._known: dict[int, Problems] = {}  # by both ids combined in one integer, which saves memory
        self._kept: dict[int, Any] = {}  # keeps the objects alive whose ids are keys above
        self._derived: dict[Hashable, Node] = {}
        self._refs: dict[int, bool] = {}  # True if a node contains a $ref

    def between(self, reader: Any, writer: Any, where: Path) -> Problems:
        """Problems of a pair of nodes; for recursive schemas, a pair in progress is assumed compatible."""
        reader, writer = _node(self.reader.resolved(reader)), _node(self.writer.resolved(writer))
        pair = id(reader) << 64 | id(writer)
        if pair not in self._known:
            self.budget.spend(1 + (_width(reader) + _width(writer)) // 8)
            self._kept[id(reader)], self._kept[id(writer)] = reader, writer
            self._known[pair] = _NONE
            found = self._compare(reader, writer, where)
            self.budget.spend(len(found) // 8)
            self._known[pair] = found[:MAX_PROBLEMS] if found else _NONE
        return self._known[pair]

    def _has_ref(self, node: Any) -> bool:
        """True if a node contains a $ref: equal texts may then have different targets."""
        if not isinstance(node, dict | list):
            return False
        if id(node) not in self._refs:
            inner = node.values() if isinstance(node, dict) else node
            self._refs[id(node)] = (isinstance(node, dict) and "$ref" in node) or any(
                map(self._has_ref, inner)
            )
        return self._refs[id(node)]

    def _derive(self, key: Hashable, make: Callable[[], Node]) -> Node:
        """Derived node, the same object each time, so that recursion terminates."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def _without(self, node: Node, word: str) -> Node:
        return self._derive((id(node), word), lambda: {key: node[key] for key in node if key != word})

    def _compare(self, reader: Node, writer: Node, where: Path) -> Problems:
        reader = self._derive((id(reader), ""), lambda node=reader: _bare(node))  # type: ignore[misc]
        writer = self._derive((id(writer), ""), lambda node=writer: _bare(node))  # type: ignore[misc]
        if not reader or (reader == writer and not self._has_ref(reader)) or _is_false(writer):
            return []
        if _is_false(reader):
            return [Problem("TYPE_NARROWED", where, "reader accepts nothing")]
        for word in (*SUMS, PRODUCT):  # {"anyOf": [x]} is x
            if len(reader.get(word, ())) == 1 and len(reader) == 1:
                return self.between(reader[word][0], writer, where)
            if len(writer.get(word, ())) == 1 and len(writer) == 1:
                return self.between(reader, writer[word][0], where)
        return self._combined(reader, writer, where)

    def _combined(self, reader: Node, writer: Node, where: Path) -> Problems:
        """Compare combined schemas: every writer alternative must be readable, by every part of the reader."""
        for word in SUMS:
            if word in writer and not self._has_same(reader, writer, word):
                return self._each_alternative(reader, writer, word, where)
        if PRODUCT in reader:
            rest = self._without(reader, PRODUCT)
            parts = [*reader[PRODUCT], *([rest] if rest else [])]
            return self._each_part(parts, writer, where)
        for word in SUMS:
            if word in reader and not self._has_same(reader, writer, word):
                rest = self._without(reader, word)
                found = self._some_alternative(reader[word], writer, where)
                return found + (self.between(rest, writer, where) if rest else [])
        if PRODUCT in writer:
            return self._some_part(reader, writer, where)
        return self._plain(reader, writer, where)

    def _has_same(self, reader: Node, writer: Node, word: str) -> bool:
        """True if both have the same alternatives, which equal texts with a $ref need not be."""
        return word in reader and reader[word] == writer.get(word) and not self._has_ref(reader[word])

    def _each_alternative(self, reader: Node, writer: Node, word: str, where: Path) -> Problems:
        found: Problems = []
        rest = self._without(writer, word)
        for at, one in enumerate(writer[word]):
            both: Node = {PRODUCT: [one, rest]}
            branch = self._derive((id(writer), word, at), lambda both=both: both) if rest else one  # type: ignore[misc]
            if self.between(reader, branch, where / f"/{at}"):
                found.append(
                    Problem("SUM_TYPE_NARROWED", where, f"alternative {at} of the writer is not read")
                )
        return found

    def _some_alternative(self, alternatives: list[Any], writer: Node, where: Path) -> Problems:
        """Find a reader alternative for the writer. Trying unchanged ones first avoids n x n steps for long lists."""
        self.budget.spend(len(alternatives) // 8)
        nodes = self._derive((id(alternatives), ""), lambda: {"": self._resolved(alternatives)})[""]
        tried = sorted(range(len(nodes)), key=lambda at: nodes[at] != writer)
        if any(not self.between(alternatives[at], writer, where / f"/{at}") for at in tried):
            return []
        return [
            Problem(
                "COMBINED_TYPE_SUBSCHEMAS_CHANGED", where, "reader has no alternative that reads the writer"
            )
        ]

    def _resolved(self, alternatives: list[Any]) -> list[Node]:
        return [_bare(_node(self.reader.resolved(one))) for one in alternatives]

    def _each_part(self, parts: list[Any], writer: Node, where: Path) -> Problems:
        found: Problems = []
        for at, part in enumerate(parts):
            if self.between(part, writer, where / f"/allOf/{at}"):
                found.append(
                    Problem("PRODUCT_TYPE_EXTENDED", where, f"part {at} of allOf is not met by the writer")
                )
        return found

    def _some_part(self, reader: Node, writer: Node, where: Path) -> Problems:
        """Compare with a writer's allOf. Documents match all parts, so reading one part or all merged suffices."""
        rest = self._without(writer, PRODUCT)
        parts = [*writer[PRODUCT], *([rest] if rest else [])]
        tried = [self.between(reader, part, where) for part in parts]
        if any(not found for found in tried):
            return []
        merged = self._derive((id(writer), "merged"), lambda: {"": self._merged(parts)})[""]
        return tried[0] if merged is None else self._plain(reader, merged, where)

    def _merged(self, parts: list[Any]) -> Node | None:
        """Merge parts into one schema, joining properties and required; None if other keywords conflict."""
        merged: Node = {}
        for part in parts:
            node = _bare(_node(self.writer.resolved(part)))
            for key, value in node.items():
                if key == "properties":
                    merged["properties"] = {**merged.get("properties", {}), **value}
                elif key == "required":
                    merged["required"] = [*merged.get("required", []), *value]
                elif key in merged and merged[key] != value:
                    return None
                else:
                    merged[key] = value
        return merged

    def _plain(self, reader: Node, writer: Node, where: Path) -> Problems:
        found = value_problems(reader, writer, where)
        if found:
            return found
        found += number_problems(reader, writer, where)
        found += size_problems(reader, writer, where)
        found += self._negations(reader, writer, where)
        if _may_be(writer, "array"):
            found += self._items(reader, writer, where)
        if _may_be(writer, "object"):
            found += self._properties(reader, writer, where)
            found += self._dependencies(reader, writer, where)
        return found

    def _negations(self, reader: Node, writer: Node, where: Path) -> Problems:
        """The writer must exclude everything that the reader excludes."""
        if "not" not in reader:
            return []
        swapped = _Comparison(self.writer, self.reader, self.budget)
        if "not" in writer and not swapped.between(writer["not"], reader["not"], where / "/not"):
            return []
        return [Problem("NOT_TYPE_EXTENDED", where / "/not", "reader excludes more than the writer")]

    def _items(self, reader: Node, writer: Node, where: Path) -> Problems:
        of_reader, more_of_reader = _tuple(reader)
        of_writer, more_of_writer = _tuple(writer)
        found = self._lists_and_tuples(reader, writer, where)
        for at in range(max(len(of_reader), len(of_writer))):
            one = of_reader[at] if at < len(of_reader) else more_of_reader
            other = of_writer[at] if at < len(of_writer) else more_of_writer
            if self.between(one, other, where / f"/items/{at}"):
                found += self.between(one, other, where / f"/items/{at}")
        found += self.between(more_of_reader, more_of_writer, where / "/items")
        if reader.get("uniqueItems") and not writer.get("uniqueItems"):
            found.append(Problem("UNIQUE_ITEMS_ADDED", where, "reader wants items that differ"))
        if "contains" in reader and self.between(reader["contains"], writer.get("contains", {}), where):
            found.append(
                Problem("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", where, "reader wants an item that fits")
            )
        return found

    def _lists_and_tuples(self, reader: Node, writer: Node, where: Path) -> Problems:
        """Confluent's rule: changing between list and tuple is incompatible, even if every item can be read."""
        if _is_list(writer) and any(_node(self.reader.resolved(one)) for one in _tuple(reader)[0]):
            text = "items of the writer are a list and those of the reader a tuple"
            return [Problem("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", where / "/items", text)]
        if _tuple(writer)[0] and _is_list(reader) and _node(self.reader.resolved(reader["items"])):
            text = "items of the writer are a tuple and those of the reader a list"
            return [Problem("SCHEMA_ADDED", where / "/items", text)]
        return []

    def _properties(self, reader: Node, writer: Node, where: Path) -> Problems:
        found: Problems = []
        reader_value, others = reader.get("properties", {}), writer.get("properties", {})
        added = self._covering(writer, [name for name in reader_value if name not in others])
        removed = self._covering(reader, [name for name in others if name not in reader_value])
        around = where / "/properties/"
        for name in [*reader_value, *removed]:
            if name in added:
                found += self._added(reader_value[name], added[name], around / name)
            elif name in removed:
                found += self._removed(others[name], removed[name], around / name)
            else:
                found += self.between(reader_value[name], others[name], around / name)
        found += self._required(reader, writer, where)
        return found + self._additional(reader, writer, where)

    def _covering(self, node: Node, names: list[str]) -> dict[str, Any]:
        """Schemas that apply to names missing in `properties`. Patterns are compiled once and not cached."""
        rest = node.get("additionalProperties", node.get("unevaluatedProperties", True))
        found = dict.fromkeys(names, rest)
        unmatched = names
        for pattern, schema in node.get("patternProperties", {}).items() if names else ():
            self.budget.spend(COMPILE_STEPS + sum(map(len, unmatched)) // 64 + len(unmatched) // 8)
            matched = _matching(pattern, unmatched)
            found |= dict.fromkeys(matched, schema)
            unmatched = [name for name in unmatched if name not in matched]
        return found

    def _added(self, schema: Any, covering: Any, where: Path) -> Problems:
        """Check a property added by the reader against the writer's schema for additional properties."""
        if covering is False or not self.between(schema, covering, where):
            return []
        kind = "OPEN" if _node(covering) == {} else "PARTIALLY_OPEN"
        return [
            Problem(
                f"PROPERTY_ADDED_TO_{kind}_CONTENT_MODEL",
                where,
                "property is new to a schema that let it be anything",
            )
        ]

    def _removed(self, schema: Any, covering: Any, where: Path) -> Problems:
        if covering is not False:
            return self.between(covering, schema, where)
        if _is_false(_node(self.writer.resolved(schema))):
            return []
        return [
            Problem(
                "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", where, "property is not let through any more"
            )
        ]

    def _required(self, reader: Node, writer: Node, where: Path) -> Problems:
        known = set(_names(writer.get("required")))
        found = []
        for name in _names(reader.get("required")):
            schema = _node(self.reader.resolved(reader.get("properties", {}).get(name, {})))
            if name not in known and "default" not in schema:
                path = where / "/properties/" / name
                found.append(
                    Problem("REQUIRED_ATTRIBUTE_ADDED", path, "property is required and has no default")
                )
        return found

    def _additional(self, reader: Node, writer: Node, where: Path) -> Problems:
        reader_value = reader.get("additionalProperties", True)
        others = writer.get("additionalProperties", True)
        found: Problems = []
        if others is not False and self.between(reader_value, others, where / "/additionalProperties"):
            found.append(
                Problem("ADDITIONAL_PROPERTIES_NARROWED", where, "additional properties are narrowed")
            )
        for pattern, schema in reader.get("patternProperties", {}).items():
            other = writer.get("patternProperties", {}).get(pattern, others)
            if other is not False:
                found += self.between(schema, other, where / f"/patternProperties/{pattern}")
        if "propertyNames" in reader and self.between(
            reader["propertyNames"], writer.get("propertyNames", {}), where
        ):
            found.append(Problem("PROPERTY_NAMES_NARROWED", where, "names of properties are narrowed"))
        return found

    def _dependencies(self, reader: Node, writer: Node, where: Path) -> Problems:
        found: Problems = []
        reader_value, others = _all_dependencies(reader), _all_dependencies(writer)
        required = set(_names(writer.get("required")))
        for name, requested in reader_value.items():
            other = others.get(name)
            if isinstance(requested, list):
                missing = set(requested) - set(other if isinstance(other, list) else ()) - required
                if missing:
                    found.append(
                        Problem("DEPENDENCY_ARRAY_EXTENDED", where, f"property {name[:100]} depends on more")
                    )
            elif self.between(
                requested, other if isinstance(other, dict | bool) else {}, where / "/dependencies/" / name
            ):
                found.append(
                    Problem("DEPENDENCY_SCHEMA_ADDED", where, f"property {name[:100]} depends on a schema")
                )
        return found


def _node(schema: Any) -> Node:
    if isinstance(schema, dict):
        return schema
    return _FALSE if schema is False else _TRUE


_NONE: Problems = []  # shared: never modify it
_TRUE: Node = {}
_FALSE: Node = {"not": {}}


def _width(node: Node) -> int:
    """Number of elements that a comparison of the node traverses."""
    return len(node) + sum(len(node[word]) for word in _WIDE if isinstance(node.get(word), dict | list))


_WIDE = ("enum", "properties", "required", "patternProperties", "dependencies", "dependentRequired")


def _is_false(node: Node) -> bool:
    return node.get("not") in ({}, True) and len(node) == 1


def _bare(node: Node) -> Node:
    return {key: value for key, value in node.items() if key not in ANNOTATIONS}


def _may_be(node: Node, kind: str) -> bool:
    listed = node.get("type")
    return listed is None or kind in (listed if isinstance(listed, list) else [listed])


def _names(value: Any) -> list[str]:
    return value if isinstance(value, list) else []  # ignore draft 3's `required: true`


def _tuple(node: Node) -> tuple[list[Any], Any]:
    """Schemas of the first items, and the schema of all others."""
    if "prefixItems" in node:
        return node["prefixItems"], node.get("items", True)
    items = node.get("items", True)
    return (items, node.get("additionalItems", True)) if isinstance(items, list) else ([], items)


def _is_list(node: Node) -> bool:
    """True if one schema applies to all items."""
    return "prefixItems" not in node and isinstance(node.get("items"), dict | bool)


def _matching(pattern: str, names: list[str]) -> set[str]:
    """Names that match; empty for an invalid pattern."""
    try:
        compiled = compile_for_long_texts(pattern)
        return {name for name in names if compiled.search(name) is not None}
    except PatternError:
        return set()


def _all_dependencies(node: Node) -> dict[str, Any]:
    return {
        **node.get("dependencies", {}),
        **node.get("dependentRequired", {}),
        **node.get("dependentSchemas", {}),
    }
