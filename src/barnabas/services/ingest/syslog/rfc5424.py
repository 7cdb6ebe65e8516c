"""Parser for RFC 5424: `<34>1 2026-10-11T22:14:15.003Z host app procid msgid [id name="value"] message`."""

from __future__ import annotations

from datetime import datetime

from barnabas.services.ingest.syslog.message import (
    FACILITIES,
    SEVERITIES,
    StructuredData,
    SyslogMessage,
    text_of,
)

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
        raise NotSyslogError("a header of RFC 5424 has five fields, and structured data follow")
    time, host, app, procid, msgid = (_field(word) for word in words[:_HEADER_WORDS])
    rest = words[_HEADER_WORDS]
    data, end = read_structured_data(rest)
    if rest[end : end + 1] not in (b"", b" "):
        raise NotSyslogError("structured data are followed by a space")
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
        raise NotSyslogError("structured data are - or begin with [")
    return found, position


def _element(text: bytes, position: int, found: StructuredData) -> int:
    end = _end_of_name(text, position)
    parameters = found.setdefault(_name(text[position:end]), {})
    position = end
    while text[position : position + 1] == b" ":
        equals = text.find(b'="', position)
        if equals < 0:
            raise NotSyslogError('a parameter is NAME="VALUE"')
        name = _name(text[position + 1 : equals])
        value, position = _value(text, equals + 2)
        _add(parameters, name, value)
    if text[position : position + 1] != b"]":
        raise NotSyslogError("an element ends with ]")
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
    raise NotSyslogError("a value has no end")


def _unescaped(value: bytes) -> bytes:
    if b"\\" not in value:
        return value
    parts = value.split(b"\\\\")
    return b"\\".join([part.replace(b'\\"', b'"').replace(b"\\]", b"]") for part in parts])


def _end_of_name(text: bytes, position: int) -> int:
    bracket = text.find(b"]", position)
    if bracket < 0:
        raise NotSyslogError("an element has no end")
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
        raise NotSyslogError("a field of the header is empty")
    text = text_of(word)
    return None if text == NIL else text
