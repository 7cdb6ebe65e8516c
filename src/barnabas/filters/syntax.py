"""Nodes of an expression tree, and the error for an invalid expression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_BYTES = 4096
DEEPEST_BRACKETS = 32
HIGHEST_TREE = 100  # nested operators: `1 + 1 + ...` nests without brackets


class FilterError(ValueError):
    """The expression is invalid or does not apply to records; `column` counts from 1."""

    def __init__(self, problem: str, column: int) -> None:
        super().__init__(f"column {column}: {problem}")
        self.column = column


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxNode:
    column: int
    height: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Literal(SyntaxNode):
    value: Any


@dataclass(frozen=True, slots=True)
class Name(SyntaxNode):
    name: str


@dataclass(frozen=True, slots=True)
class Select(SyntaxNode):
    """`base.field`"""

    base: SyntaxNode
    field: str


@dataclass(frozen=True, slots=True)
class Has(SyntaxNode):
    """`has(base.field)`"""

    base: SyntaxNode
    field: str


@dataclass(frozen=True, slots=True)
class Index(SyntaxNode):
    """`base[index]`"""

    base: SyntaxNode
    index: SyntaxNode


@dataclass(frozen=True, slots=True)
class Call(SyntaxNode):
    """A function, method or operator; the first argument of a method is its receiver."""

    function: str
    arguments: tuple[SyntaxNode, ...]


@dataclass(frozen=True, slots=True)
class Logic(SyntaxNode):
    """All parts with `&&`, or any of them with `||`."""

    operator: str
    parts: tuple[SyntaxNode, ...]


@dataclass(frozen=True, slots=True)
class Conditional(SyntaxNode):
    condition: SyntaxNode
    then: SyntaxNode
    otherwise: SyntaxNode


@dataclass(frozen=True, slots=True)
class ListOf(SyntaxNode):
    items: tuple[SyntaxNode, ...]


@dataclass(frozen=True, slots=True)
class MapOf(SyntaxNode):
    entries: tuple[tuple[SyntaxNode, SyntaxNode], ...]


@dataclass(frozen=True, slots=True)
class Macro(SyntaxNode):
    """`base.exists(variable, predicate)` or `base.all(...)`"""

    kind: str
    base: SyntaxNode
    variable: str
    predicate: SyntaxNode


def children_of(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    match node:
        case Select(base=base) | Has(base=base):
            return (base,)
        case Index(base=base, index=index):
            return base, index
        case Call(arguments=parts) | Logic(parts=parts) | ListOf(items=parts):
            return parts
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case MapOf(entries=entries):
            return tuple(part for entry in entries for part in entry)
        case Macro(base=base, predicate=predicate):
            return base, predicate
    return ()
