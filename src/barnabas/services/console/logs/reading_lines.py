"""What the beginning of a line tells: when, and how bad. Columns at a time, by RE2, whatever the lines contain."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.services.console.logs.columns import LEVELS, Longs

HEAD = 256
"""Bytes of a line in which its time and its level are looked for."""

_TIME = (
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,](?P<fraction>\d{1,3})\d*)?(?: ?(?:Z|(?P<sign>[+-])(?P<zone_hour>\d\d):?(?P<zone_minute>\d\d)))?"
)
_WORDS = {
    "trace": ("TRACE",),
    "debug": ("DEBUG",),
    "info": ("INFO", "NOTICE"),
    "warn": ("WARN", "WARNING"),
    "error": ("ERROR", "ERR", "SEVERE"),
    "fatal": ("FATAL", "CRITICAL", "CRIT", "PANIC", "ALERT", "EMERG"),
}
"""As programs and syslog (RFC 5424) call them."""
_LEVEL_OF = {word: LEVELS.index(level) for level, words in _WORDS.items() for word in words}
_ANY = "|".join(_LEVEL_OF)
_LEVEL = (
    rf"(?:^|[^A-Za-z0-9_])(?P<capital>{_ANY})(?:$|[^A-Za-z0-9_])"
    rf"|(?i:(?:level|lvl|severity)[\"']?\s*[=:]\s*[\"']?|\[)(?P<named>(?i:{_ANY}))(?:$|[^A-Za-z0-9_])"
)
"""In capitals anywhere; otherwise as `level=warn`, `"level": "warn"` or `[warn]`."""


def heads(lines: pa.Array) -> pa.Array:
    return pc.binary_slice(lines.view(pa.binary()), 0, HEAD).view(pa.string())


def times_in(texts: pa.Array) -> tuple[Longs, npt.NDArray[np.bool_]]:
    """(milliseconds, whether there is a time) of the first time of ISO 8601; without a zone it is UTC."""
    found = pc.extract_regex(texts, _TIME)
    valid = found.is_valid().to_numpy(zero_copy_only=False)
    if not valid.any():
        return np.zeros(len(texts), np.int64), valid
    fields = {name: found.field(name) for name in (each.name for each in found.type)}
    year, month, day, hour, minute, second = (
        _numbers(fields[name]) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    dates = months.astype("M8[D]") + (day - 1)
    possible = (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second <= 60)
    possible &= dates.astype("M8[M]") == months  # no 30th of February
    seconds = ((dates.astype(np.int64) * 24 + hour) * 60 + minute) * 60 + second - _zones(fields)
    fraction = _numbers(pc.ascii_rpad(fields["fraction"], 3, "0"))
    return seconds * 1000 + fraction, valid & possible


def levels_in(texts: pa.Array) -> npt.NDArray[np.int8]:
    found = pc.extract_regex(texts, _LEVEL)
    capital, named = found.field("capital"), found.field("named")
    words = pc.if_else(pc.equal(pc.binary_length(capital), 0), named, capital)
    return levels_named(pc.if_else(found.is_valid(), words, ""))


def levels_named(words: pa.Array) -> npt.NDArray[np.int8]:
    """Of single words, such as syslog's severities; null and unknown ones are `none`."""
    encoded = words.cast(pa.binary()).dictionary_encode(null_encoding="encode")
    codes = [_code_of(word) for word in encoded.dictionary.to_pylist()]
    taken: npt.NDArray[np.int8] = np.array(codes or [0], np.int8)[
        encoded.indices.to_numpy(zero_copy_only=False)
    ]
    return taken


def _code_of(word: bytes | None) -> int:
    return 0 if word is None else _LEVEL_OF.get(word[:16].decode("ascii", "replace").upper(), 0)


def _zones(fields: dict[str, pa.Array]) -> Longs:
    """Seconds east of Greenwich."""
    east = _numbers(fields["zone_hour"]) * 3600 + _numbers(fields["zone_minute"]) * 60
    west = pc.equal(fields["sign"], "-").fill_null(False).to_numpy(zero_copy_only=False)
    return np.where(west, -east, east)


def _numbers(digits: pa.Array) -> Longs:
    """Nothing is 0: a part that is not there, and a line without a time."""
    there = pc.if_else(pc.equal(pc.binary_length(digits), 0), "0", digits).fill_null("0")
    numbers: Longs = there.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers
