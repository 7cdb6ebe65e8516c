"""Resolve names to parts of a record: `record.value.amount`, or `value.amount` for short.

The names are kafbat's. A key or value that is a JSON object has fields; any other is text. A part that the record lacks
(the key, the value of a tombstone) is a missing field. `timestamp` is our addition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from barnabas.filters.syntax import (
    Call,
    Conditional,
    FilterError,
    Has,
    Index,
    ListOf,
    Literal,
    Logic,
    Macro,
    MapOf,
    Name,
    Select,
    SyntaxNode,
)
from barnabas.filters.values import BINARY, UNARY, EvaluationError

ROOTS = {
    "key": "key",
    "value": "value",
    "keyAsText": "key",
    "valueAsText": "value",
    "headers": "headers",
    "timestampMs": "timestamp",
    "timestamp": "timestamp",
    "partition": "partition",
    "offset": "offset",
}
"""Each root, with the part of the record it is read from."""

RECORD = "record"


@dataclass(frozen=True, slots=True)
class Root(SyntaxNode):
    """`record.value`: one of ROOTS, or the variable of a macro."""

    name: str


@dataclass(frozen=True, slots=True)
class HasRoot(SyntaxNode):
    """`has(record.key)`"""

    name: str


@dataclass(frozen=True, slots=True)
class RootField(SyntaxNode):
    """`record.value.amount`: only fields named like this are decoded."""

    root: str
    field: str


@dataclass(frozen=True, slots=True)
class HasRootField(SyntaxNode):
    root: str
    field: str


@dataclass(frozen=True, slots=True)
class Comprehension(SyntaxNode):
    """A macro whose variable has a unique name."""

    kind: str
    base: SyntaxNode
    variable: str
    predicate: SyntaxNode


def bind(node: SyntaxNode, names: Mapping[str, SyntaxNode] | None = None) -> SyntaxNode:
    """Return the tree in terms of records. `names` replaces the roots, to test the language alone."""
    return _Binder(names).bind(node, {})


class _Binder:
    def __init__(self, names: Mapping[str, SyntaxNode] | None) -> None:
        self._names = names
        self._loops = 0

    def bind(self, node: SyntaxNode, variables: dict[str, str]) -> SyntaxNode:
        match node:
            case Name():
                return self._name(node, variables)
            case Select():
                return self._select(node, variables)
            case Has():
                return self._has(node, variables)
            case Macro():
                return self._macro(node, variables)
            case Index(base=base, index=Literal(value=str(name))):
                found = self.bind(base, variables)
                if isinstance(found, Root) and found.name in ("key", "value", "headers"):
                    return RootField(found.name, name, column=node.column)
        return self._inner(node, variables)

    def _inner(self, node: SyntaxNode, variables: dict[str, str]) -> SyntaxNode:
        def bound(part: SyntaxNode) -> SyntaxNode:
            return self.bind(part, variables)

        match node:
            case Index(base=base, index=index):
                return replace(node, base=bound(base), index=bound(index))
            case Call(arguments=parts):
                return _folded(replace(node, arguments=tuple(map(bound, parts))))
            case Logic(parts=parts):
                return replace(node, parts=tuple(map(bound, parts)))
            case ListOf(items=parts):
                return _folded_list(replace(node, items=tuple(map(bound, parts))))
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return replace(node, condition=bound(condition), then=bound(then), otherwise=bound(otherwise))
            case MapOf(entries=entries):
                return replace(node, entries=tuple((bound(key), bound(value)) for key, value in entries))
        return node

    def _name(self, node: Name, variables: dict[str, str]) -> SyntaxNode:
        if node.name in variables:
            return Root(variables[node.name], column=node.column)
        if self._names is not None and node.name in self._names:
            return self._names[node.name]
        if self._names is None and node.name in ROOTS:
            return Root(node.name, column=node.column)
        known = f"write {RECORD}.NAME with NAME one of {', '.join(ROOTS)}"
        raise FilterError(f"unknown name {node.name!r}: {known}", node.column)

    def _is_record(self, node: SyntaxNode, variables: dict[str, str]) -> bool:
        return (
            self._names is None
            and isinstance(node, Name)
            and node.name == RECORD
            and node.name not in variables
        )

    def _root(self, name: str, column: int) -> str:
        if name not in ROOTS:
            raise FilterError(f"a record has no {name!r}: it has {', '.join(ROOTS)}", column)
        return name

    def _select(self, node: Select, variables: dict[str, str]) -> SyntaxNode:
        if self._is_record(node.base, variables):
            return Root(self._root(node.field, node.column), column=node.column)
        base = self.bind(node.base, variables)
        if isinstance(base, Root) and base.name in ROOTS:
            return RootField(base.name, node.field, column=node.column)
        return replace(node, base=base)

    def _has(self, node: Has, variables: dict[str, str]) -> SyntaxNode:
        if self._is_record(node.base, variables):
            return HasRoot(self._root(node.field, node.column), column=node.column)
        base = self.bind(node.base, variables)
        if isinstance(base, Root) and base.name in ROOTS:
            return HasRootField(base.name, node.field, column=node.column)
        return replace(node, base=base)

    def _macro(self, node: Macro, variables: dict[str, str]) -> SyntaxNode:
        base = self.bind(node.base, variables)
        self._loops += 1
        own = f"{node.variable}#{self._loops}"
        predicate = self.bind(node.predicate, {**variables, node.variable: own})
        return Comprehension(node.kind, base, own, predicate, column=node.column)


def _folded(node: Call) -> SyntaxNode:
    """Fold a call of literals into a literal, unless it fails: `true || 1 / 0 > 1` is true."""
    values = [part.value for part in node.arguments if isinstance(part, Literal)]
    functions: dict[str, Any] = {**BINARY} if len(node.arguments) == 2 else {**UNARY}
    function = functions.get(node.function)
    if len(values) != len(node.arguments) or function is None:
        return node
    try:
        return Literal(function(*values), column=node.column)
    except EvaluationError:
        return node


def _folded_list(node: ListOf) -> SyntaxNode:
    values = [part.value for part in node.items if isinstance(part, Literal)]
    return Literal(values, column=node.column) if len(values) == len(node.items) else node
