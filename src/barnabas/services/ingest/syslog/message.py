"""Syslog message as stored in records, and names of facilities and severities (RFC 5424, tables 1 and 2)."""

from __future__ import annotations

import msgspec

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
