"""Dates and times as people write them in JSON, read as Spark reads them: `2026-11-16 1:02`, `2026-11`, `...+02:00`.

Two differences: a time without a zone is UTC, because a task does not know the session's; and years have four digits.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)

_DAY = r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE = re.compile(rf"{_DAY}(?:[ T].*)?)?)?", re.DOTALL)
_TIME = re.compile(rf"{_DAY}(?:[ T](\d{{1,2}})(?::(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d*))?)?)? ?(\D.*)?)?)?)?")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def days_of(text: str) -> date:
    """ValueError when it is none."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no date")
    year, month, day = (int(part or 1) for part in found.groups())
    return date(year, month, day)


def microseconds_of(text: str, *, with_zone: bool) -> int:
    """Since 1970; ValueError when it is no time. What has no zone is UTC, or what a clock shows where none may be."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no time")
    *parts, fraction, zone = found.groups()
    if zone and not with_zone:
        raise ValueError(f"{text!r} has a zone, and its column has none")
    year, month, day = (int(part or 1) for part in parts[:3])
    hour, minute, second = (int(part or 0) for part in parts[3:])
    moment = datetime(year, month, day, hour, minute, second, int((fraction or "").ljust(6, "0")[:6]))
    offset = zone_of(zone).utcoffset(moment) if zone else None
    return (moment - EPOCH - (offset or timedelta())) // MICROSECOND


def zone_of(text: str) -> tzinfo:
    """`Z`, `+2`, `+02:00`, `UTC+2`, `Europe/Berlin`; ValueError for what is none."""
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    found = _OFFSET.fullmatch(text)
    if found is None:
        return _region(text)
    hours, minutes = int(found[2]), int(found[3] or 0)
    if hours > 23 or minutes > 59:  # as Arrow has it
        raise ValueError(f"{text!r} is no zone")
    length = timedelta(hours=hours, minutes=minutes)
    return timezone(-length if found[1] == "-" else length)


def _region(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:  # no such file, or no name of one
        raise ValueError(f"{name!r} is no zone") from error
