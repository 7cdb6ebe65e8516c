"""Converts PostgreSQL's text output to JSON and its types to Spark types. No I/O.

Values without an exact JSON representation become strings: `numeric` with all digits, timestamps in ISO 8601, bytes in
base64. The text output is that of a session with the settings of `SESSION`, independent of the server's settings.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from barnabas.spark import SourceError

SESSION = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "search_path": "pg_catalog",
}

MAX_DIGITS = 38
"""Maximum precision of Spark's decimals."""

NUMERIC = "numeric"


class PgType(NamedTuple):
    name: str
    base: int = 0
    """Base type of a domain."""
    element: int = 0
    """Element type of an array."""
    delimiter: str = ","


Types = Mapping[int, PgType]
Converter = Callable[[str], Any]


def converter(types: Types, type_id: int) -> Converter:
    """Return the converter from text output to a JSON value; values of unknown types stay strings."""
    kind = plain(types, type_id)
    if kind is None:
        return str
    if kind.element:
        element = converter(types, kind.element)
        return lambda text: array(text, element, kind.delimiter)
    return _CONVERTERS.get(kind.name, str)


def plain(types: Types, type_id: int) -> PgType | None:
    """Resolve domains to their base type."""
    kind = types.get(type_id)
    while kind is not None and kind.base:
        kind = types.get(kind.base)
    return kind


def spark_type(types: Types, type_id: int, modifier: int) -> str:
    kind = plain(types, type_id)
    if kind is None:
        return "STRING"
    if kind.element:
        return f"ARRAY<{spark_type(types, kind.element, modifier)}>"
    if kind.name == NUMERIC:
        return _decimal(modifier)
    return _SPARK_TYPES.get(kind.name, "STRING")


def _decimal(modifier: int) -> str:
    """Return the Spark type of a numeric; a string without precision, because its digits are unlimited."""
    if modifier < 4:
        return "STRING"
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    fits = precision <= MAX_DIGITS and scale <= precision  # 11 bits: a negative scale appears as a large one
    return f"DECIMAL({precision},{scale})" if fits else "STRING"


def array(text: str, element: Converter, delimiter: str = ",") -> list[Any]:
    """Parse `{1,NULL,"a b"}` with any number of dimensions; leading bounds are dropped."""
    if text.startswith("["):
        text = text[text.index("=") + 1 :]
    try:
        values, end = _array(text, 0, element, delimiter)
    except IndexError:
        raise SourceError(f"Not a PostgreSQL array: {text[:100]!r}") from None
    if end != len(text):
        raise SourceError(f"Not a PostgreSQL array: {text[:100]!r}")
    return values


def _array(text: str, at: int, element: Converter, delimiter: str) -> tuple[list[Any], int]:
    if text[at] != "{":
        raise IndexError
    found: list[Any] = []
    at += 1
    if text[at] == "}":
        return found, at + 1
    while True:
        value: Any
        if text[at] == "{":
            value, at = _array(text, at, element, delimiter)
        elif text[at] == '"':
            quoted, at = _quoted(text, at + 1)
            value = element(quoted)
        else:
            word, at = _word(text, at, delimiter)
            value = None if word == "NULL" else element(word)
        found.append(value)
        if text[at] == "}":
            return found, at + 1
        if text[at] != delimiter:
            raise IndexError
        at += 1


def _quoted(text: str, at: int) -> tuple[str, int]:
    letters: list[str] = []
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        letters.append(text[at])
        at += 1
    return "".join(letters), at + 1


def _word(text: str, at: int, delimiter: str) -> tuple[str, int]:
    start = at
    while text[at] not in (delimiter, "}"):
        at += 1
    if at == start:
        raise IndexError
    return text[start:at], at


def _boolean(text: str) -> bool:
    return text == "t"


def _number(text: str) -> float | str:
    """Parse a number; infinity and NaN stay strings, because JSON has no such values."""
    value = float(text)
    return value if math.isfinite(value) else text


def _moment(text: str) -> str:
    """Convert `2026-01-31 12:00:00.5+00` to `2026-01-31T12:00:00.5Z`; `infinity` and years BC are unchanged."""
    if text[-3:] == "+00" and text[10:11] == " ":
        return f"{text[:10]}T{text[11:-3]}Z"
    return text


def _wall_clock(text: str) -> str:
    return f"{text[:10]}T{text[11:]}" if text[10:11] == " " and text[-2:] != "BC" else text


def _bytes(text: str) -> str:
    return base64.b64encode(bytes.fromhex(text.removeprefix("\\x"))).decode()


def _json(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


_CONVERTERS: dict[str, Converter] = {
    "bool": _boolean,
    "int2": int,
    "int4": int,
    "int8": int,
    "oid": int,
    "float4": _number,
    "float8": _number,
    "json": _json,
    "jsonb": _json,
    "bytea": _bytes,
    "timestamp": _wall_clock,
    "timestamptz": _moment,
}

_SPARK_TYPES = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INT",
    "int8": "BIGINT",
    "oid": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
    "bytea": "BINARY",
}
