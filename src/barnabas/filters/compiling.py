"""Compile a bound tree into functions of a row. A row holds the decoded parts of a record that the tree names."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from barnabas.common.regex import PatternError, compile_for_long_texts
from barnabas.filters.binding import Comprehension, HasRoot, HasRootField, Root, RootField
from barnabas.filters.layout import NO_FIELD, Missing, RowLayout
from barnabas.filters.syntax import (
    Call,
    Conditional,
    FilterError,
    Has,
    Index,
    ListOf,
    Literal,
    Logic,
    MapOf,
    Select,
    SyntaxNode,
)
from barnabas.filters.values import (
    BINARY,
    NUMBERS,
    UNARY,
    EvaluationError,
    equal,
    has,
    index,
    kind_of,
    no_overload,
    select,
)

Row = list[Any]
Evaluate = Callable[[Row], Any]

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compile_node(node: SyntaxNode, layout: RowLayout) -> Evaluate:
    """The function raises EvaluationError if the row has no value."""

    def inner(part: SyntaxNode) -> Evaluate:
        return compile_node(part, layout)

    match node:
        case Literal(value=value):
            return lambda row: value
        case Root(name=name):
            return _root(layout.slot(name))
        case HasRoot(name=name):
            slot = layout.slot(name)
            return lambda row: row[slot].__class__ is not Missing
        case RootField() | HasRootField():
            return _root_field(node, layout)
        case Select(base=base, field=field):
            of_base = inner(base)
            return lambda row: select(of_base(row), field)
        case Has(base=base, field=field):
            of_base = inner(base)
            return lambda row: has(of_base(row), field)
        case Index(base=base, index=key):
            of_base, of_key = inner(base), inner(key)
            return lambda row: index(of_base(row), of_key(row))
        case Comprehension():
            return _loop(node, layout)
    return _compound(node, inner)


def _compound(node: SyntaxNode, inner: Callable[[SyntaxNode], Evaluate]) -> Evaluate:
    match node:
        case Call():
            return _call(node, inner)
        case Logic(operator=sign, parts=parts):
            return _logic(sign, [inner(part) for part in parts])
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return _conditional(inner(condition), inner(then), inner(otherwise))
        case ListOf(items=items):
            parts_of = [inner(item) for item in items]
            return lambda row: [part(row) for part in parts_of]
        case MapOf(entries=entries):
            return _map([(inner(key), inner(value)) for key, value in entries])
    raise AssertionError(node)


def _root(slot: int) -> Evaluate:
    def get(row: Row) -> Any:
        value = row[slot]
        if value.__class__ is Missing:
            raise EvaluationError(value.reason)
        return value

    return get


def _root_field(node: RootField | HasRootField, layout: RowLayout) -> Evaluate:
    slot, attribute = layout.slot(node.root), layout.attribute(node.root, node.field)
    field = node.field
    if attribute is None:
        is_root = _root(slot)
        if isinstance(node, HasRootField):
            return lambda row: has(is_root(row), field)
        return lambda row: select(is_root(row), field)

    def get(row: Row) -> Any:
        value = getattr(row[slot], attribute)
        if value.__class__ is Missing:
            raise EvaluationError(f"no such field: {field}" if value is NO_FIELD else value.reason)
        return value

    def is_there(row: Row) -> bool:
        value = getattr(row[slot], attribute)
        if value.__class__ is Missing and value is not NO_FIELD:
            raise EvaluationError(value.reason)
        return value is not NO_FIELD

    return is_there if isinstance(node, HasRootField) else get


def _call(node: Call, inner: Callable[[SyntaxNode], Evaluate]) -> Evaluate:
    if node.function == "matches":
        return _matches(node, inner)
    if len(node.arguments) == 1:
        unary, of = UNARY[node.function], inner(node.arguments[0])
        return lambda row: unary(of(row))
    left, right = node.arguments
    if isinstance(right, Literal):
        return _with_literal(node.function, inner(left), right.value)
    binary, of_left, of_right = BINARY[node.function], inner(left), inner(right)
    return lambda row: binary(of_left(row), of_right(row))


def _with_literal(function: str, of: Evaluate, literal: Any) -> Evaluate:
    """Fast path for the most common filter: a field, an operator, a literal."""
    if function in _ORDERS and type(literal) in NUMBERS:
        plain = _ORDERS[function]

        def order(row: Row) -> bool:
            value = of(row)
            if value.__class__ in NUMBERS:
                return plain(value, literal)
            raise no_overload(function, value, literal)

        return order
    if function == "==" and type(literal) is str:
        return lambda row: bool(of(row) == literal)  # only text equals text
    if function == "==":
        return lambda row: equal(of(row), literal)
    binary = BINARY[function]
    return lambda row: binary(of(row), literal)


@lru_cache(maxsize=64)
def _pattern(text: str) -> Any:
    return compile_for_long_texts(text)


def compiled_pattern(text: str, column: int) -> Any:
    try:
        return _pattern(text)
    except PatternError as error:
        raise FilterError(f"invalid pattern in matches(): {error}", column) from None


def _matches(node: Call, inner: Callable[[SyntaxNode], Evaluate]) -> Evaluate:
    of_text, of_pattern = map(inner, node.arguments)
    if isinstance(node.arguments[1], Literal) and type(node.arguments[1].value) is str:
        compiled_pattern(node.arguments[1].value, node.column)  # fail now, not for each record

    def matches(row: Row) -> bool:
        text, pattern = of_text(row), of_pattern(row)
        if not type(text) is type(pattern) is str:
            raise no_overload("matches", text, pattern)
        try:
            return _pattern(pattern).search(text) is not None
        except PatternError as error:
            raise EvaluationError(f"invalid pattern {pattern!r}: {error}") from None

    return matches


def _logic(sign: str, parts: list[Evaluate]) -> Evaluate:
    """A part that decides the result makes errors of the other parts irrelevant, also to its left."""
    decisive = sign == "||"

    def evaluate(row: Row) -> bool:
        failure: EvaluationError | None = None
        for part in parts:
            try:
                value = part(row)
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is True and decisive:
                return True
            if value is False and not decisive:
                return False
            if value.__class__ is not bool:
                failure = failure or no_overload(sign, value)
        if failure is not None:
            raise failure
        return not decisive

    return evaluate


def _conditional(condition: Evaluate, then: Evaluate, otherwise: Evaluate) -> Evaluate:
    def evaluate(row: Row) -> Any:
        decision = condition(row)
        if decision.__class__ is not bool:
            raise no_overload("?:", decision)
        return then(row) if decision else otherwise(row)

    return evaluate


def _map(entries: list[tuple[Evaluate, Evaluate]]) -> Evaluate:
    def evaluate(row: Row) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for of_key, of_value in entries:
            key = of_key(row)
            if type(key) not in (str, int, bool):
                raise EvaluationError(f"a {kind_of(key)} is not a valid map key")
            if key in found:
                raise EvaluationError(f"duplicate map key {key}")
            found[key] = of_value(row)
        return found

    return evaluate


def _loop(node: Comprehension, layout: RowLayout) -> Evaluate:
    decisive = node.kind == "exists"
    of_base, slot = compile_node(node.base, layout), layout.slot(node.variable)
    predicate = compile_node(node.predicate, layout)

    def evaluate(row: Row) -> bool:
        items, failure = of_base(row), None
        if type(items) not in (list, dict):
            raise no_overload(node.kind, items)
        for row[slot] in items:
            try:
                value = predicate(row)
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is True and decisive:
                return True
            if value is False and not decisive:
                return False
            if value.__class__ is not bool:
                failure = failure or no_overload(node.kind, value)
        if failure is not None:
            raise failure
        return not decisive

    return evaluate
