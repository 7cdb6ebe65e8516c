"""Syslog parser for RFC 5424 and RFC 3164. No I/O."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

# -- Messages as stored in records; facilities and severities (RFC 5424, tables 1 and 2) ---------------

FACILITIES = (
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
)  # fmt: skip
SEVERITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
MAX_PRIORITY = 191

StructuredData = dict[str, dict[str, str | list[str]]]
"""By element and parameter; a list if a parameter occurs more than once."""


class SyslogMessage(msgspec.Struct, omit_defaults=True):
    """Parsed message; JSON omits missing fields."""

    time: str | None = None
    """RFC 3339 timestamp of the sender."""
    host: str | None = None
    facility: str | None = None
    severity: str | None = None
    app: str | None = None
    procid: str | None = None
    msgid: str | None = None
    data: StructuredData = {}
    message: str = ""
    parsed: bool = True
    """False: unknown format; `message` contains the whole frame."""
    truncated: bool = False


def unparsed(frame: bytes) -> SyslogMessage:
    return SyslogMessage(message=text_of(frame), parsed=False)


def text_of(data: bytes) -> str:
    """Decode UTF-8; escape invalid bytes as \\xNN."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="backslashreplace")


def read_priority(frame: bytes) -> tuple[int, int] | None:
    """Parse `<34>` into (priority, end position); None if it is missing or invalid."""
    if not frame.startswith(b"<"):
        return None
    end = frame.find(b">", 2, 5)
    digits = frame[1:end]
    if end < 0 or not digits.isdigit() or (number := int(digits)) > MAX_PRIORITY:
        return None
    return number, end + 1


# -- RFC 5424: `<34>1 2026-10-11T22:14:15.003Z host app procid msgid [id name="value"] message` --------

NIL = "-"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
VERSION = b"1 "
_HEADER_WORDS = 5  # time, host, app, procid, msgid


class NotSyslogError(ValueError):
    """Malformed RFC 5424 message."""


def parse_rfc5424(priority: int, frame: bytes, position: int) -> SyslogMessage:
    """Parse the frame from `position`, just after the version; NotSyslogError if it is malformed."""
    words = frame[position:].split(b" ", _HEADER_WORDS)
    if len(words) <= _HEADER_WORDS:
        raise NotSyslogError("expected five header fields and structured data (RFC 5424)")
    time, host, app, procid, msgid = (_field(word) for word in words[:_HEADER_WORDS])
    rest = words[_HEADER_WORDS]
    data, end = read_structured_data(rest)
    if rest[end : end + 1] not in (b"", b" "):
        raise NotSyslogError("expected a space after structured data")
    return SyslogMessage(
        time=None if time is None else check_time(time),
        host=host,
        facility=FACILITIES[priority >> 3],
        severity=SEVERITIES[priority & 7],
        app=app,
        procid=procid,
        msgid=msgid,
        data=data,
        message=text_of(rest[end + 1 :].removeprefix(BYTE_ORDER_MARK)),
    )


def check_time(text: str) -> str:
    """Return the text unchanged; NotSyslogError if it is not an RFC 3339 timestamp."""
    if "T" not in text or not (text.endswith("Z") or text[-6:-5] in ("+", "-")):
        raise NotSyslogError(f"not an RFC 3339 time: {text!r}")
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise NotSyslogError(f"not an RFC 3339 time: {text!r}") from None
    return text


def read_structured_data(text: bytes) -> tuple[StructuredData, int]:
    """Parse leading structured data; return it and its end position."""
    if text.startswith(b"-"):
        return {}, 1
    found: StructuredData = {}
    position = 0
    while text[position : position + 1] == b"[":
        position = _element(text, position + 1, found)
    if not position:
        raise NotSyslogError("expected - or [ for structured data")
    return found, position


def _element(text: bytes, position: int, found: StructuredData) -> int:
    end = _end_of_name(text, position)
    parameters = found.setdefault(_name(text[position:end]), {})
    position = end
    while text[position : position + 1] == b" ":
        equals = text.find(b'="', position)
        if equals < 0:
            raise NotSyslogError('expected a parameter NAME="VALUE"')
        name = _name(text[position + 1 : equals])
        value, position = _value(text, equals + 2)
        _add(parameters, name, value)
    if text[position : position + 1] != b"]":
        raise NotSyslogError("expected ] at the end of an element")
    return position + 1


def _value(text: bytes, position: int) -> tuple[str, int]:
    """Parse a value up to the closing quote; a backslash escapes a quote, a backslash or ]."""
    end = position
    while (end := text.find(b'"', end)) >= 0:
        before = end
        while text[before - 1 : before] == b"\\" and before > position:
            before -= 1
        if (end - before) % 2 == 0:
            return text_of(_unescaped(text[position:end])), end + 1
        end += 1
    raise NotSyslogError("unterminated value")


def _unescaped(value: bytes) -> bytes:
    if b"\\" not in value:
        return value
    parts = value.split(b"\\\\")
    return b"\\".join([part.replace(b'\\"', b'"').replace(b"\\]", b"]") for part in parts])


def _end_of_name(text: bytes, position: int) -> int:
    bracket = text.find(b"]", position)
    if bracket < 0:
        raise NotSyslogError("unterminated element")
    space = text.find(b" ", position, bracket)
    return bracket if space < 0 else space


def _name(text: bytes) -> str:
    if not text or not text.isascii() or any(one in b' ="]' for one in text):
        raise NotSyslogError(f"not a valid name: {text_of(text)!r}")
    return text.decode()


def _add(parameters: dict[str, str | list[str]], name: str, value: str) -> None:
    before = parameters.get(name)
    if before is None:
        parameters[name] = value
    elif isinstance(before, list):
        before.append(value)
    else:
        parameters[name] = [before, value]


def _field(word: bytes) -> str | None:
    if not word:
        raise NotSyslogError("empty header field")
    text = text_of(word)
    return None if text == NIL else text


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
    if not frame.startswith(VERSION, position):
        return parse_rfc3164(priority, text_of(frame[position:]), now)
    try:
        return parse_rfc5424(priority, frame, position + len(VERSION))
    except NotSyslogError:
        message = unparsed(frame)
        message.facility, message.severity = FACILITIES[priority >> 3], SEVERITIES[priority & 7]
        return message
