"""JSON values one by one, as Spark's `from_json` reads them: for rows that Arrow's parser rejects.

Rows that Arrow accepts are read the same way here, so that a row does not depend on its neighbours. In addition: any
value fits a STRING, which keeps the JSON text; the last of duplicate keys wins; a time may have more than one form; and
fields that match are kept when others do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa

# -- Dates and times in JSON, read as Spark reads them: `2026-11-16 1:02`, `2026-11`, `...+02:00`

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)

_DAY = r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE = re.compile(rf"{_DAY}(?:[ T].*)?)?)?", re.DOTALL)
_TIME = re.compile(rf"{_DAY}(?:[ T](\d{{1,2}})(?::(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d*))?)?)? ?(\D.*)?)?)?)?")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def days_of(text: str) -> date:
    """Parse a date; ValueError if invalid."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not a valid date: {text!r}")
    year, month, day = (int(part or 1) for part in found.groups())
    return date(year, month, day)


def microseconds_of(text: str, *, with_zone: bool) -> int:
    """Microseconds since 1970; ValueError if invalid. Without a zone: UTC, or local if none is allowed."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not a valid time: {text!r}")
    *parts, fraction, zone = found.groups()
    if zone and not with_zone:
        raise ValueError(f"{text!r} has a zone, but its column type has none")
    year, month, day = (int(part or 1) for part in parts[:3])
    hour, minute, second = (int(part or 0) for part in parts[3:])
    value = datetime(year, month, day, hour, minute, second, int((fraction or "").ljust(6, "0")[:6]))
    offset = zone_of(zone).utcoffset(value) if zone else None
    return (value - EPOCH - (offset or timedelta())) // MICROSECOND


def zone_of(text: str) -> tzinfo:
    """Parse `Z`, `+2`, `+02:00`, `UTC+2`, `Europe/Berlin`; ValueError if invalid."""
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    found = _OFFSET.fullmatch(text)
    if found is None:
        return _region(text)
    hours, minutes = int(found[2]), int(found[3] or 0)
    if hours > 23 or minutes > 59:  # as in Arrow
        raise ValueError(f"not a valid time zone: {text!r}")
    length = timedelta(hours=hours, minutes=minutes)
    return timezone(-length if found[1] == "-" else length)


def _region(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:  # no such file, or not a file name
        raise ValueError(f"not a valid time zone: {name!r}") from error


_INTEGER = re.compile(rb"-?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?")
_SPECIAL = {
    "NaN": float("nan"),
    "+INF": float("inf"),
    "+Infinity": float("inf"),
    "Infinity": float("inf"),
    "-INF": float("-inf"),
    "-Infinity": float("-inf"),
}
MICROSECONDS = 1_000_000

Reader = Callable[[bytes], Any]
"""Reads a token other than `null`; ValueError if it does not match."""

_as_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_as_array = msgspec.json.Decoder(list[msgspec.Raw])
_as_text = msgspec.json.Decoder(str)


class PartlyError(ValueError):
    """Only a part of the value matches."""

    def __init__(self, value: Any) -> None:
        super().__init__("only a part matches")
        self.value = value


class JsonRow(NamedTuple):
    fields: dict[str, Any]
    fits: bool


class RowReader:
    """Reads the fields of a schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._read = _struct_reader(list(schema))

    def read(self, value: bytes) -> JsonRow:
        """Invalid UTF-8 is read as U+FFFD; a value that is not a JSON object has no fields."""
        try:
            return JsonRow(self._read(_as_utf8(value)), True)
        except PartlyError as error:
            return JsonRow(error.value, False)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            return JsonRow({}, False)


def reason_of(value: bytes, schema: pa.Schema) -> str:
    """Reason why a value does not match. Called for few values."""
    text = _as_utf8(value)
    try:
        found = _as_object.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        return f"not a JSON object: {error}"
    for field in schema:
        try:
            _read(reader_of(field.type), bytes(found.get(field.name, b"null")))
        except (ValueError, msgspec.MsgspecError) as error:
            return f"{field.name}: {error}"
    return "does not match the schema"


def _as_utf8(value: bytes) -> bytes:
    return value.decode("utf-8", "replace").encode()


def reader_of(kind: pa.DataType) -> Reader:
    if pa.types.is_struct(kind):
        return _struct_reader([kind.field(index) for index in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return _array_reader(kind.value_type)
    if pa.types.is_integer(kind):
        return _integer_reader(kind.bit_width)
    if pa.types.is_decimal(kind):
        return _decimal_reader(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return _zoned_time if kind.tz is not None else _local_time
    for is_kind, reader in _PLAIN:
        if is_kind(kind):
            return reader
    raise TypeError(f"JSON cannot be read as {kind}")


def _struct_reader(fields: list[pa.Field]) -> Reader:
    readers = {field.name: reader_of(field.type) for field in fields}

    def read(token: bytes) -> dict[str, Any]:
        found, complete = {}, True
        for name, inner in _as_object.decode(token).items():
            reader = readers.get(name)
            if reader is None:
                continue
            try:
                found[name] = _read(reader, bytes(inner))
            except PartlyError as error:
                found[name], complete = error.value, False
            except (ValueError, msgspec.MsgspecError):
                found[name], complete = None, False
        if not complete:
            raise PartlyError(found)
        return found

    return read


def _array_reader(element: pa.DataType) -> Reader:
    reader = reader_of(element)

    def read(token: bytes) -> list[Any]:
        """An element that matches in part keeps that part; one that does not match at all discards the array."""
        found, complete = [], True
        for inner in _as_array.decode(token):
            try:
                found.append(_read(reader, bytes(inner)))
            except PartlyError as error:
                found.append(error.value)
                complete = False
        if not complete:
            raise PartlyError(found)
        return found

    return read


def _read(reader: Reader, token: bytes) -> Any:
    return None if token == b"null" else reader(token)


def _integer_reader(bits: int) -> Reader:
    lowest, highest = -(1 << bits - 1), (1 << bits - 1) - 1
    longest = len(str(lowest))

    def read(token: bytes) -> int:
        if not _INTEGER.fullmatch(token) or len(token) > longest or not lowest <= int(token) <= highest:
            raise ValueError(f"not a valid {bits}-bit integer: {token!r}")
        return int(token)

    return read


def _decimal_reader(precision: int, scale: int) -> Reader:
    def read(token: bytes) -> Decimal:
        text = _text(token).replace(",", "") if _is_text(token) else token.decode()
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"not a valid number: {text!r}")
        number = Decimal(text)
        if number and number.adjusted() >= precision - scale:
            raise ValueError(f"{text!r} has more than {precision - scale} digits before the point")
        with localcontext(prec=precision + 1):
            rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        if len(rounded.as_tuple().digits) > precision:  # 9.995 was rounded to 10.00
            raise ValueError(f"{text!r} has more than {precision} digits")
        return rounded

    return read


def _text_of_anything(token: bytes) -> str:
    return _text(token) if _is_text(token) else token.decode()


def _boolean(token: bytes) -> bool:
    if token not in (b"true", b"false"):
        raise ValueError(f"{token!r} is neither true nor false")
    return token == b"true"


def _float(token: bytes) -> float:
    if _is_text(token):
        text = _text(token)
        if text not in _SPECIAL:
            raise ValueError(f"not a valid number: {text!r}")
        return _SPECIAL[text]
    return float(token)


def _date(token: bytes) -> Any:
    return days_of(_text(token))


def _local_time(token: bytes) -> int:
    return microseconds_of(_text(token), with_zone=False)


def _zoned_time(token: bytes) -> int:
    """A number means seconds since 1970."""
    if _is_text(token):
        return microseconds_of(_text(token), with_zone=True)
    if not _INTEGER.fullmatch(token) or abs(int(token)) >= (1 << 63) // MICROSECONDS:
        raise ValueError(f"not a valid time: {token!r}")
    return int(token) * MICROSECONDS


def _is_text(token: bytes) -> bool:
    return token.startswith(b'"')


def _text(token: bytes) -> str:
    return _as_text.decode(token)


_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Reader], ...] = (
    (pa.types.is_string, _text_of_anything),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_floating, _float),
    (pa.types.is_date, _date),
)
