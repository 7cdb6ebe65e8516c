"""A reference implementation of the filter language: a tree walk over the decoded record."""

from __future__ import annotations

import json
import operator
from typing import Any

import re2

from barnabas.filters.moments import Timestamp, parse_duration, parse_timestamp
from barnabas.filters.syntax import (
    Call,
    Conditional,
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


class NoValueError(Exception):
    pass


def record_of(
    key: bytes | None, value: bytes | None, headers: Any, timestamp: int, place: tuple[int, int]
) -> Any:
    found: dict[str, Any] = {"partition": place[0], "offset": place[1]}
    for name, data in (("key", key), ("value", value)):
        if data is not None:
            found[name] = _decoded(data)
            found[name + "AsText"] = data.decode("utf-8", "replace")
    found["headers"] = {
        name: None if text is None else text.decode("utf-8", "replace") for name, text in headers
    }
    if timestamp != -1:
        found |= {"timestampMs": timestamp, "timestamp": Timestamp(timestamp * 1_000_000)}
    return {"record": found, **found}


def _decoded(data: bytes) -> Any:
    try:
        found = json.loads(data.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else data.decode("utf-8", "replace")


def _refuse(name: str) -> None:
    raise ValueError(name)


def matches(tree: SyntaxNode, record: dict[str, Any]) -> bool:
    try:
        return value_of(tree, record) is True
    except NoValueError:
        return False


def value_of(node: SyntaxNode, names: dict[str, Any]) -> Any:  # noqa: C901 - one case for each kind of node
    match node:
        case Literal(value=value):
            return value
        case Name(name=name):
            return _item(names, name)
        case Select(base=base, field=field):
            return _item(value_of(base, names), field)
        case Has(base=base, field=field):
            found = value_of(base, names)
            _check(isinstance(found, dict))
            return field in found
        case Index(base=base, index=index):
            return _item(value_of(base, names), value_of(index, names))
        case ListOf(items=items):
            return [value_of(item, names) for item in items]
        case MapOf(entries=entries):
            return {value_of(key, names): value_of(value, names) for key, value in entries}
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            decision = value_of(condition, names)
            _check(isinstance(decision, bool))
            return value_of(then if decision else otherwise, names)
        case Logic(operator=sign, parts=parts):
            return _decide(sign == "||", [(part, names) for part in parts])
        case Macro(kind=kind, base=base, variable=variable, predicate=predicate):
            items = value_of(base, names)
            _check(isinstance(items, (list, dict)))
            return _decide(kind == "exists", [(predicate, {**names, variable: item}) for item in items])
        case Call(function=function, arguments=arguments):
            return _call(function, [value_of(part, names) for part in arguments])
    raise AssertionError(node)


def _check(fits: bool) -> None:
    if not fits:
        raise NoValueError


def _decide(decisive: bool, parts: list[tuple[SyntaxNode, dict[str, Any]]]) -> bool:
    found = []
    for part, names in parts:
        try:
            found.append(value_of(part, names))
        except NoValueError:
            found.append("failed")
    if any(value is decisive for value in found):
        return decisive
    _check(all(value is (not decisive) for value in found))
    return not decisive


def _item(base: Any, key: Any) -> Any:
    if isinstance(base, dict):
        for name, value in base.items():
            if same(name, key):
                return value
    if isinstance(base, list) and _is_number(key) and key == int(key) and 0 <= key < len(base):
        return base[int(key)]
    raise NoValueError


def same(a: Any, b: Any) -> bool:
    if _is_number(a) and _is_number(b):
        return bool(a == b)
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(same(one, other) for one, other in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    return bool(a == b)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_SUMS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _call(function: str, values: list[Any]) -> Any:
    if function == "==":
        return same(*values)
    if function == "!=":
        return not same(*values)
    if function == "in":
        _check(isinstance(values[1], (list, dict)))
        return any(same(values[0], item) for item in values[1])
    if function in _ORDER:
        fits = all(map(_is_number, values)) or (type(values[0]) is type(values[1]) and _is_ordered(values[0]))
        _check(fits)
        return _ORDER[function](*values)
    if function == "!":
        _check(isinstance(values[0], bool))
        return not values[0]
    if function in _SUMS or function == "negate":
        return _sum(function, values)
    return _function(function, values)


def _is_ordered(value: Any) -> bool:
    return isinstance(value, (str, bool, Timestamp))


def _sum(function: str, values: list[Any]) -> Any:
    if function == "negate":
        _check(_is_number(values[0]))
        found = -values[0]
    else:
        _check(type(values[0]) is type(values[1]))
        if isinstance(values[0], (str, list)) and function == "+":
            return values[0] + values[1]
        _check(_is_number(values[0]))
        found = _SUMS[function](*values)
    _check(not isinstance(found, int) or -(1 << 63) <= found < 1 << 63)
    return found


def _function(function: str, values: list[Any]) -> Any:
    if function == "size":
        _check(isinstance(values[0], (str, list, dict)))
        return len(values[0])
    _check(all(isinstance(value, str) for value in values))
    if function == "timestamp":
        return parse_timestamp(values[0])
    if function == "duration":
        return parse_duration(values[0])
    if function == "contains":
        return values[1] in values[0]
    if function == "matches":
        return re2.search(values[1], values[0]) is not None
    return getattr(values[0], function.lower())(values[1])
