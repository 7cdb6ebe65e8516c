"""CEL's operators and functions on values. Operands of the wrong type raise EvaluationError.

Values are Python's: None, bool, int (64 bits), float, str, list, dict, and Timestamp and Duration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from barnabas.filters.moments import (
    SECOND,
    Duration,
    Timestamp,
    parse_duration,
    parse_timestamp,
)

NUMBERS = (int, float)  # by type(), which is not fooled by bool
ORDERED = (str, bool, Timestamp, Duration)
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
NAMES = {type(None): "null", str: "string", dict: "map", float: "double"}


class EvaluationError(Exception):
    """An expression has no value for a record; the message gives the reason."""


def no_overload(function: str, *values: Any) -> EvaluationError:
    kinds = ", ".join(kind_of(value) for value in values)
    return EvaluationError(f"{function} does not take {kinds}")


def kind_of(value: Any) -> str:
    return NAMES.get(type(value), type(value).__name__.lower())


def equal(a: Any, b: Any) -> bool:
    """Compare numbers by value; values of different types are not equal."""
    kind, other = type(a), type(b)
    if kind in NUMBERS:
        return other in NUMBERS and bool(a == b)
    if kind is not other:
        return False
    if kind is list:
        return len(a) == len(b) and all(map(equal, a, b))
    if kind is dict:
        return len(a) == len(b) and all(_has_entry(b, name, value) for name, value in a.items())
    return bool(a == b)


def _has_entry(entries: dict[Any, Any], name: Any, value: Any) -> bool:
    found = find(entries, name)
    return found is not ABSENT and equal(value, found)


class _Absent:
    pass


ABSENT = _Absent()


def find(entries: dict[Any, Any], key: Any) -> Any:
    """Return the value of a key, or ABSENT. True and 1 are the same key in Python, but not in CEL."""
    if key is not None and type(key) not in (str, int, float, bool):
        return ABSENT
    value = entries.get(key, ABSENT)
    if value is ABSENT or type(key) is str:
        return value
    stored = next(name for name in entries if name == key)
    return value if equal(stored, key) else ABSENT


def compare(operator: str) -> Callable[[Any, Any], bool]:
    plain = PYTHON[operator]

    def apply(a: Any, b: Any) -> bool:
        kind, other = type(a), type(b)
        if (kind in NUMBERS and other in NUMBERS) or (kind is other and kind in ORDERED):
            return plain(a, b)
        raise no_overload(operator, a, b)

    return apply


PYTHON: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def is_in(value: Any, container: Any) -> bool:
    if type(container) is list:
        return any(equal(value, item) for item in container)
    if type(container) is dict:
        return find(container, value) is not ABSENT
    raise no_overload("in", value, container)


def _whole(value: int) -> int:
    if SMALLEST <= value <= LARGEST:
        return value
    raise EvaluationError("integer overflow: the result does not fit in 64 bits")


def add(a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is type(b):
        if kind is int:
            return _whole(a + b)
        if kind in (str, float, list):
            return a + b
    if isinstance(a, (Timestamp, Duration)) and isinstance(b, (Timestamp, Duration)):
        return _add_moments(a, b)
    raise no_overload("+", a, b)


def _add_moments(a: Any, b: Any) -> Any:
    if type(a) is type(b) is Timestamp:
        raise no_overload("+", a, b)
    kind = Timestamp if Timestamp in (type(a), type(b)) else Duration
    return _moment(kind, a.nanos + b.nanos)


def subtract(a: Any, b: Any) -> Any:
    if type(a) is type(b) is int:
        return _whole(a - b)
    if type(a) is type(b) is float:
        return a - b
    if type(b) is Duration and type(a) in (Timestamp, Duration):
        return _moment(type(a), a.nanos - b.nanos)
    if type(a) is type(b) is Timestamp:
        return _moment(Duration, a.nanos - b.nanos)
    raise no_overload("-", a, b)


def _moment(kind: type[Any], nanos: int) -> Any:
    try:
        return kind(nanos)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def multiply(a: Any, b: Any) -> Any:
    if type(a) is type(b) is int:
        return _whole(a * b)
    if type(a) is type(b) is float:
        return a * b
    raise no_overload("*", a, b)


def divide(a: Any, b: Any) -> Any:
    if type(a) is type(b) is float:
        return a / b if b else _by_zero(a, b)
    if not type(a) is type(b) is int:
        raise no_overload("/", a, b)
    if b == 0:
        raise EvaluationError("division by zero")
    return _whole(-(-a // b) if (a < 0) != (b < 0) else a // b)  # towards zero


def _by_zero(a: float, b: float) -> float:
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def remainder(a: Any, b: Any) -> Any:
    if not type(a) is type(b) is int:
        raise no_overload("%", a, b)
    if b == 0:
        raise EvaluationError("division by zero")
    return a - b * (-(-a // b) if (a < 0) != (b < 0) else a // b)


def negate(a: Any) -> Any:
    if type(a) is int:
        return _whole(-a)
    if type(a) is float:
        return -a
    raise no_overload("-", a)


def invert(a: Any) -> bool:
    if type(a) is bool:
        return not a
    raise no_overload("!", a)


def select(base: Any, name: str) -> Any:
    if type(base) is not dict:
        raise EvaluationError(f"no field {name!r} of a {kind_of(base)}")
    if name not in base:
        raise EvaluationError(f"no such field: {name}")
    return base[name]


def has(base: Any, name: str) -> bool:
    if type(base) is dict:
        return name in base
    raise EvaluationError(f"no field {name!r} of a {kind_of(base)}")


def index(base: Any, key: Any) -> Any:
    if type(base) is dict:
        found = find(base, key)
        if found is ABSENT:
            raise EvaluationError(f"no such key: {key}")
        return found
    if type(base) is list and (type(key) is int or (type(key) is float and key.is_integer())):
        if 0 <= key < len(base):
            return base[int(key)]
        raise EvaluationError(f"no element {key} of {len(base)}")
    raise no_overload("[]", base, key)


def size(value: Any) -> int:
    if type(value) in (str, list, dict):
        return len(value)
    raise no_overload("size", value)


def text_method(name: str, plain: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def apply(text: Any, part: Any) -> bool:
        if type(text) is type(part) is str:
            return plain(text, part)
        raise no_overload(name, text, part)

    return apply


def make_timestamp(value: Any) -> Timestamp:
    if type(value) is Timestamp:
        return value
    try:
        if type(value) is str:
            return parse_timestamp(value)
        if type(value) is int:
            return Timestamp(value * SECOND)
    except (ValueError, OverflowError) as error:
        raise EvaluationError(str(error)) from None
    raise no_overload("timestamp", value)


def make_duration(value: Any) -> Duration:
    if type(value) is Duration:
        return value
    if type(value) is not str:
        raise no_overload("duration", value)
    try:
        return parse_duration(value)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def getter(name: str) -> Callable[[Any], int]:
    of_time, of_length = _OF_TIME[name], _OF_LENGTH.get(name)

    def apply(value: Any) -> int:
        if type(value) is Timestamp:
            return of_time(value)
        if type(value) is Duration and of_length is not None:
            return int(of_length(value.nanos))
        raise no_overload(name, value)

    return apply


_OF_TIME: dict[str, Callable[[Timestamp], int]] = {
    "getFullYear": lambda time: time.date.year,
    "getMonth": lambda time: time.date.month - 1,
    "getDate": lambda time: time.date.day,
    "getDayOfMonth": lambda time: time.date.day - 1,
    "getDayOfWeek": lambda time: time.date.isoweekday() % 7,
    "getDayOfYear": lambda time: time.date.timetuple().tm_yday - 1,
    "getHours": lambda time: time.date.hour,
    "getMinutes": lambda time: time.date.minute,
    "getSeconds": lambda time: time.date.second,
    "getMilliseconds": lambda time: time.nanos % SECOND // 10**6,
}


def _towards_zero(nanos: int, unit: int) -> int:
    return -(-nanos // unit) if nanos < 0 else nanos // unit


_OF_LENGTH: dict[str, Callable[[int], int]] = {
    "getHours": lambda nanos: _towards_zero(nanos, 3600 * SECOND),
    "getMinutes": lambda nanos: _towards_zero(nanos, 60 * SECOND),
    "getSeconds": lambda nanos: _towards_zero(nanos, SECOND),
    "getMilliseconds": lambda nanos: _towards_zero(nanos, 10**6) % 1000,
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "==": equal,
    "!=": lambda a, b: not equal(a, b),
    "in": is_in,
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
    **{operator: compare(operator) for operator in PYTHON},
    "startsWith": text_method("startsWith", str.startswith),
    "endsWith": text_method("endsWith", str.endswith),
    "contains": text_method("contains", lambda text, part: part in text),
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "!": invert,
    "negate": negate,
    "size": size,
    "timestamp": make_timestamp,
    "duration": make_duration,
    **{name: getter(name) for name in _OF_TIME},
}
