"""Parse a frame of any supported syslog format into a message."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from barnabas.services.ingest.syslog import rfc5424
from barnabas.services.ingest.syslog.message import (
    FACILITIES,
    SEVERITIES,
    SyslogMessage,
    read_priority,
    text_of,
    unparsed,
)

# -- RFC 3164 as used in practice: `<34>Oct 11 22:14:15 host su[230]: message` -------------------------

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
# All repetitions are bounded and unambiguous: matching takes linear time.
_CISCO = re.compile(r"(?:\d{1,12})?: (?:([A-Za-z0-9_.-]{1,255}): )?(?=[*.]?[A-Z][a-z]{2} )")
_BSD_TIME = re.compile(
    r"[*.]?([A-Za-z]{3}) {1,2}(\d{1,2}) (?:(\d{4}) )?(\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?"
    r"(?: (\d{4})(?=[ :]))?(?: ([A-Z]{3,5})(?=:))?(:?)(?: |$)"
)
_ISO_TIME = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2}))(:?)(?: |$)")
_TAG = re.compile(r"([^\s:\[\]]{1,128})(?:\[([^\]\s]{1,128})\]:?|:)(?: |$)")
_UNIVERSAL = ("UTC", "GMT")
_AHEAD = timedelta(days=1)
"""Tolerated clock skew and time zone difference of a sender whose timestamps lack the year."""


def parse_rfc3164(priority: int, text: str, now: datetime) -> SyslogMessage:
    """Parse the text after the priority; `now` is the local receive time. Accepts any text."""
    found = SyslogMessage(facility=FACILITIES[priority >> 3], severity=SEVERITIES[priority & 7])
    rest, is_cisco = _read_time(text, found, now)
    if found.time is not None and not is_cisco:
        rest = _read_host(rest, found)
    tag = _TAG.match(rest)
    if tag is not None:
        found.app, found.procid = tag[1], tag[2]
        rest = rest[tag.end() :]
    found.message = rest
    return found


def _read_time(text: str, found: SyslogMessage, now: datetime) -> tuple[str, bool]:
    """Parse the timestamp into `found`; return the remaining text and True if no host follows (Cisco)."""
    start, host = 0, None
    if (cisco := _CISCO.match(text)) is not None:
        start, host = cisco.end(), cisco[1]
    if (iso := _ISO_TIME.match(text, start)) is not None:
        time = _iso(iso[1])
        match: re.Match[str] | None = iso
    else:
        match = _BSD_TIME.match(text, start)
        time = None if match is None else _bsd(match, now)
    if match is None or time is None:
        return text, False
    found.time, found.host = time, host
    return text[match.end() :], host is not None or match[match.re.groups] == ":"


def _read_host(text: str, found: SyslogMessage) -> str:
    word, _, rest = text.partition(" ")
    if word.endswith(":") or "[" in word or not rest:
        return text  # a tag, or the whole message
    found.host = word
    return rest.removeprefix(": ")  # Cisco's ASA: `host : %ASA-...`


def _iso(text: str) -> str | None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text


def _bsd(match: re.Match[str], now: datetime) -> str | None:
    month = _MONTHS.get(match[1].lower())
    if month is None:
        return None
    year = match[3] or match[8]
    years = [int(year)] if year else [now.year + 1, now.year, now.year - 1]
    zone = UTC if match[9] in _UNIVERSAL else now.tzinfo
    micros = int((match[7] or "0").ljust(6, "0")[:6])
    for each in years:
        try:
            time = datetime(
                each, month, int(match[2]), int(match[4]), int(match[5]), int(match[6]), micros, zone
            )
        except ValueError:  # invalid time, or a day missing in this year
            continue
        if year or time - now <= _AHEAD:
            return time.isoformat()
    return None


def parse_message(frame: bytes, now: datetime) -> SyslogMessage:
    """Parse a frame. Never raises: malformed frames are kept unchanged with `parsed=False`."""
    found = read_priority(frame)
    if found is None:
        return unparsed(frame)
    priority, position = found
    if not frame.startswith(rfc5424.VERSION, position):
        return parse_rfc3164(priority, text_of(frame[position:]), now)
    try:
        return rfc5424.parse_rfc5424(priority, frame, position + len(rfc5424.VERSION))
    except rfc5424.NotSyslogError:
        message = unparsed(frame)
        message.facility, message.severity = FACILITIES[priority >> 3], SEVERITIES[priority & 7]
        return message
