"""Vectorized filter: Arrow decides what it can for all rows at once; the rest is evaluated row by row.

A row is FALSE, TRUE or FAILED. All parts of `&&` are evaluated; FALSE outweighs FAILED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.filters.binding import ROOTS, HasRoot, Root
from barnabas.filters.compiling import compiled_pattern
from barnabas.filters.moments import Timestamp
from barnabas.filters.needles import Needles
from barnabas.filters.syntax import Call, Literal, Logic, SyntaxNode
from barnabas.filters.values import NUMBERS

FALSE, TRUE, FAILED = 0, 1, 2

States = npt.NDArray[np.int8]
Columns = Mapping[str, pa.Array]

_FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARE = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_TEXTS = ("keyAsText", "valueAsText")
_AFFIXES = {"contains": "{}", "startsWith": r"\A{}", "endsWith": r"{}\z"}
_NO_TIMESTAMP = -1000  # microseconds: Kafka's -1


def is_vector(node: SyntaxNode) -> bool:
    match node:
        case Logic(parts=parts):
            return all(map(is_vector, parts))
        case Call(function="!", arguments=(inner,)):
            return is_vector(inner)
        case HasRoot(name=name):
            return name in ("key", "value", *_TEXTS)
        case Call(function=name, arguments=(Root(name=root), Literal(value=value))):
            return _is_leaf(name, root, value)
        case Call(function=name, arguments=(Literal(value=value), Root(name=root))) if name in _FLIPPED:
            return _is_leaf(_FLIPPED[name], root, value)
    return False


def _is_leaf(function: str, root: str, value: Any) -> bool:
    if root == "timestamp":
        return function in _COMPARE and type(value) is Timestamp
    if root in ("offset", "partition", "timestampMs"):
        return function in _COMPARE and type(value) in NUMBERS
    if root in _TEXTS and type(value) is str and "\ufffd" not in value:
        return function in (*_AFFIXES, "matches", "==", "!=")
    return False


def states_of(node: SyntaxNode, columns: Columns, rows: int) -> States:
    """Evaluate a node for which `is_vector` is true."""
    match node:
        case Logic(operator="&&", parts=parts):
            return all_of([states_of(part, columns, rows) for part in parts])
        case Logic(parts=parts):
            return _not(all_of([_not(states_of(part, columns, rows)) for part in parts]))
        case Call(function="!", arguments=(inner,)):
            return _not(states_of(inner, columns, rows))
        case HasRoot(name=name):
            return _flags(columns[ROOTS[name]].is_valid()).astype(np.int8)
        case Call(function=name, arguments=(Literal(value=value), Root(name=root))):
            return _leaf(_FLIPPED[name], root, value, columns, node.column)
        case Call(function=name, arguments=(Root(name=root), Literal(value=value))):
            return _leaf(name, root, value, columns, node.column)
    raise AssertionError(node)


def all_of(parts: list[States]) -> States:
    found: States = np.maximum.reduce(parts)
    found[np.minimum.reduce(parts) == FALSE] = FALSE
    return found


def _not(states: States) -> States:
    return np.where(states == FAILED, FAILED, 1 - states).astype(np.int8)


def _leaf(function: str, root: str, value: Any, columns: Columns, column: int) -> States:
    source = columns[ROOTS[root]]
    if root in _TEXTS:
        return _text_leaf(function, value, source, column)
    numbers = source.view(pa.int64()).to_numpy() if root.startswith("timestamp") else source.to_numpy()
    failed = numbers == _NO_TIMESTAMP if root.startswith("timestamp") else None
    if root == "timestamp":
        value = value.nanos / 1000 if value.nanos % 1000 else value.nanos // 1000
    elif root == "timestampMs":
        numbers = numbers // 1000
    found: States = _COMPARE[function](numbers, value).astype(np.int8)
    if failed is not None:
        found[failed] = FAILED
    return found


def _text_leaf(function: str, value: str, source: pa.Array, column: int) -> States:
    if function in ("==", "!="):
        found = pc.equal(source, pa.scalar(value.encode(), pa.binary()))
    elif function == "matches":
        found = _matches(source, value, column)
    else:
        found = pc.match_substring_regex(as_text(source), _AFFIXES[function].format(quoted(value.encode())))
    states = _flags(found.fill_null(False)).astype(np.int8)
    if function == "!=":
        states = (1 - states).astype(np.int8)
    if source.null_count:
        states[_flags(source.is_null())] = FAILED
    return states


def _matches(source: pa.Array, pattern: str, column: int) -> pa.Array:
    text = as_text(source)
    try:
        text.validate(full=True)
        return pc.match_substring_regex(text, pattern)
    except pa.ArrowInvalid:  # invalid UTF-8 must be read as U+FFFD, which only Python does
        compiled = compiled_pattern(pattern, column)
        found = [
            None if value is None else compiled.search(value.decode("utf-8", "replace")) is not None
            for value in source.to_pylist()
        ]
        return pa.array(found, pa.bool_())


def candidates(values: pa.Array, needles: Needles) -> npt.NDArray[np.bool_]:
    """Rows whose value contains one of the needles, or a backslash."""
    pattern = "|".join([*map(quoted, needles), r"\\"])
    return _flags(pc.match_substring_regex(as_text(values), pattern).fill_null(False))


def as_text(values: pa.Array) -> pa.Array:
    """View the same buffers as text: RE2 accepts invalid UTF-8."""
    return values.view(pa.string())


def quoted(literal: bytes) -> str:
    import re2

    return str(re2.escape(literal.decode()))


def _flags(found: pa.Array) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
    return flags
