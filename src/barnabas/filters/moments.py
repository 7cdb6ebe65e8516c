"""CEL's timestamps and durations: nanosecond precision, years 1 to 9999."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

SECOND = 1_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST = -62_135_596_800 * SECOND  # 0001-01-01T00:00:00Z
LATEST = 253_402_300_800 * SECOND - 1  # 9999-12-31T23:59:59.999999999Z
MAX = (1 << 63) - 1  # as in cel-go: 292 years

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)", re.ASCII)
_UNITS = {"h": 3600 * SECOND, "m": 60 * SECOND, "s": SECOND, "ms": 10**6, "us": 1000, "µs": 1000, "ns": 1}


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    nanos: int  # since 1970

    def __post_init__(self) -> None:
        if not EARLIEST <= self.nanos <= LATEST:
            raise ValueError("a timestamp must be in the years 1 to 9999")

    @property
    def date(self) -> datetime:
        return EPOCH + timedelta(seconds=self.nanos // SECOND)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    nanos: int

    def __post_init__(self) -> None:
        if not -MAX - 1 <= self.nanos <= MAX:
            raise ValueError("a duration must be at most 292 years")


def parse_timestamp(text: str) -> Timestamp:
    """Parse RFC 3339, `2026-11-16T08:30:00Z`; ValueError if invalid."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"not a valid timestamp: {text!r} (example: 2026-11-16T08:30:00Z)")
    *parts, fraction, sign, hours, minutes = found.groups()
    zone = UTC
    if sign:
        length = timedelta(hours=int(hours), minutes=int(minutes))
        zone = timezone(-length if sign == "-" else length)
    moment = datetime(*map(int, parts), tzinfo=zone)  # type: ignore[arg-type, misc]
    seconds = (moment - EPOCH) // timedelta(seconds=1)
    return Timestamp(seconds * SECOND + int((fraction or "").ljust(9, "0")))


def parse_duration(text: str) -> Duration:
    """Parse Go's notation, `1h30m` or `-1.5s`; ValueError if invalid."""
    unsigned = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    nanos, position = 0, 0
    for found in _PART.finditer(unsigned):
        if found.start() != position:
            break
        digits, _, fraction = found[1].partition(".")
        unit = _UNITS[found[2]]
        nanos += int(digits or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        position = found.end()
    if unsigned != "0" and (not unsigned or position != len(unsigned)):
        raise ValueError(f"not a valid duration: {text!r} (example: 1h30m)")
    return Duration(-nanos if text.startswith("-") else nanos)
