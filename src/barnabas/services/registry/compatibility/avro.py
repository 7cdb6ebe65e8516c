"""Avro: schema resolution rules of the specification, with the messages of the Python library.

Union branches are looked up by name: comparing unions of many records takes linear instead of quadratic time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from barnabas.services.registry.formats.avro import PRIMITIVES, AvroSchema
from barnabas.services.registry.limits import StepBudget

MAX_PROBLEMS = 100  # kept per pair of types, and reported
UNION = "union"
_NAMED = frozenset({"record", "enum", "fixed"})
# Writer types that a reader of each primitive type accepts by promotion.
_PROMOTED = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}

Problems = list[str]


def problems(reader: AvroSchema, writer: AvroSchema, budget: StepBudget) -> Problems:
    """Reasons why the reader cannot read all data of the writer; empty if it can."""
    reader_value, others = _Names(reader), _Names(writer)
    found = _Comparison(reader_value, others, budget).between(reader_value.root, others.root)
    return sorted(set(found))


@dataclass(frozen=True, slots=True, eq=False)
class _Type:
    """A schema with its name resolved; `space` is the namespace of nested names."""

    kind: str
    node: Any
    space: str | None = None

    @property
    def full_name(self) -> str:
        return f"{self.space}.{self.node['name']}" if self.space else str(self.node["name"])

    @property
    def is_named(self) -> bool:
        return self.kind in _NAMED


class _Names:
    """Named types of a schema and its references, by full name."""

    def __init__(self, schema: AvroSchema) -> None:
        self._named: dict[str, _Type] = {}
        for document in (*schema.dependencies, schema.document):
            self._collect(document)
        self.root = self.type(schema.document, None)

    def type(self, node: Any, space: str | None) -> _Type:
        if isinstance(node, list):
            return _Type(UNION, node, space)
        if isinstance(node, str):
            return _Type(node, node) if node in PRIMITIVES else self._find(node, space)
        kind = "record" if node["type"] == "error" else node["type"]
        if kind in _NAMED:
            inner = node.get("namespace", space) or None
            return self._named[f"{inner}.{node['name']}" if inner else node["name"]]
        return _Type(kind, node, space)

    def _find(self, name: str, space: str | None) -> _Type:
        full = name if "." in name or not space else f"{space}.{name}"
        return self._named.get(full) or self._named[name]

    def _collect(self, document: Any) -> None:
        waiting: list[tuple[Any, str | None]] = [(document, None)]
        while waiting:
            node, space = waiting.pop()
            if isinstance(node, list):
                waiting += [(one, space) for one in node]
            elif isinstance(node, dict):
                inner = self._add(node, space)
                waiting += [(one, inner) for one in _inside(node)]

    def _add(self, node: dict[str, Any], space: str | None) -> str | None:
        kind = "record" if node["type"] == "error" else node["type"]
        if kind not in _NAMED:
            return space
        found = _Type(kind, node, node.get("namespace", space) or None)
        self._named.setdefault(found.full_name, found)
        return found.space


def _inside(node: dict[str, Any]) -> Iterator[Any]:
    yield from (one["type"] for one in node.get("fields", ()))
    yield from (node[word] for word in ("items", "values") if word in node)


@dataclass(slots=True)
class _Branches:
    """Branches of a reader's union, indexed to find candidates for a writer type."""

    unnamed: list[_Type] = field(default_factory=list)
    by_name: dict[str, list[_Type]] = field(default_factory=dict)  # by short name, and by alias

    def for_writer(self, writer: _Type) -> list[_Type]:
        if not writer.is_named:
            return self.unnamed
        found = [*self.by_name.get(writer.node["name"], ()), *self.by_name.get(writer.full_name, ())]
        return sorted(found, key=lambda one: one.full_name != writer.full_name)


class _Comparison:
    def __init__(self, reader: _Names, writer: _Names, budget: StepBudget) -> None:
        self.reader, self.writer = reader, writer
        self.budget = budget
        self._known: dict[tuple[int, int], Problems] = {}  # results for named types, by the ids of both
        self._branches: dict[int, _Branches] = {}

    def between(self, reader: _Type, writer: _Type) -> Problems:
        """Problems of a pair; for recursive types, a pair in progress is assumed compatible."""
        self.budget.spend()
        if not (reader.is_named and writer.is_named):
            return self._compare(reader, writer)[:MAX_PROBLEMS]
        pair = (id(reader), id(writer))
        if pair not in self._known:
            self._known[pair] = []
            self._known[pair] = self._compare(reader, writer)[:MAX_PROBLEMS]
        return self._known[pair]

    def _compare(self, reader: _Type, writer: _Type) -> Problems:
        if writer.kind == UNION:
            return self._each_branch(reader, writer)
        if reader.kind == UNION:
            candidates = self._of_union(reader).for_writer(writer)
            if any(not self.between(one, writer) for one in candidates):
                return []
            return [f"reader union lacking writer type {writer.kind}"]
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTED.get(reader.kind, ()):
                return []
            return [f"reader type: {reader.kind} not compatible with writer type: {writer.kind}"]
        compare = _RULES.get(reader.kind)
        return [] if compare is None else compare(self, reader, writer)

    def _each_branch(self, reader: _Type, writer: _Type) -> Problems:
        found: Problems = []
        for branch in self._types(self.writer, writer):
            inside = self.between(reader, branch)
            if inside and reader.kind == UNION:
                found.append(f"reader union lacking writer type: {branch.kind.upper()}")
            else:
                found += inside
        return found

    def _types(self, names: _Names, union: _Type) -> list[_Type]:
        self.budget.spend(len(union.node) // 8)
        return [names.type(one, union.space) for one in union.node]

    def _of_union(self, union: _Type) -> _Branches:
        if id(union.node) not in self._branches:
            found = _Branches()
            for one in self._types(self.reader, union):
                if not one.is_named:
                    found.unnamed.append(one)
                    continue
                for name in {one.node["name"], *one.node.get("aliases", ())}:
                    found.by_name.setdefault(name, []).append(one)
            self._branches[id(union.node)] = found
        return self._branches[id(union.node)]

    def _array(self, reader: _Type, writer: _Type) -> Problems:
        word = "items" if reader.kind == "array" else "values"
        reader_value = self.reader.type(reader.node[word], reader.space)
        return self.between(reader_value, self.writer.type(writer.node[word], writer.space))

    def _fixed(self, reader: _Type, writer: _Type) -> Problems:
        reader_value, other = reader.node["size"], writer.node["size"]
        return _names(reader, writer) + (
            [] if reader_value == other else [f"expected: {other}, found: {reader_value}"]
        )

    def _enum(self, reader: _Type, writer: _Type) -> Problems:
        reader_value, others = reader.node["symbols"], writer.node["symbols"]
        self.budget.spend((len(reader_value) + len(others)) // 8)
        extra = sorted(set(others) - set(reader_value))
        found = _names(reader, writer)
        if extra and not reader.node.get("default"):
            shown = ", ".join(repr(one[:100]) for one in extra[:MAX_PROBLEMS])
            found.append(f"{{{shown}}}")
        return found

    def _record(self, reader: _Type, writer: _Type) -> Problems:
        reader_value, others = reader.node["fields"], {one["name"]: one for one in writer.node["fields"]}
        self.budget.spend((len(reader_value) + len(others)) // 8)
        found = _names(reader, writer)
        for one in reader_value:
            names = (one["name"], *one.get("aliases", ()))
            other = next((others[name] for name in names if name in others), None)
            if other is not None:
                inner = self.reader.type(one["type"], reader.space)
                found += self.between(inner, self.writer.type(other["type"], writer.space))
            elif "default" not in one:
                found.append(one["name"][:1000])
        return found


_RULES = {
    "array": _Comparison._array,
    "map": _Comparison._array,
    "fixed": _Comparison._fixed,
    "enum": _Comparison._enum,
    "record": _Comparison._record,
}


def _names(reader: _Type, writer: _Type) -> Problems:
    """Compare short names; namespaces may differ, as in the Java and Python libraries."""
    if reader.node["name"] == writer.node["name"] or writer.full_name in reader.node.get("aliases", ()):
        return []
    return [f"expected: {writer.full_name}"]
