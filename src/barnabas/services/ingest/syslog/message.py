"""A message of syslog as records have it, and what facilities and severities are called (RFC 5424, tables 1 and 2)."""

from __future__ import annotations

import msgspec

FACILITIES = (
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
)  # fmt: skip
SEVERITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
MAX_PRIORITY = 191

StructuredData = dict[str, dict[str, str | list[str]]]
"""By element, by parameter; a list where a parameter stands there more than once."""


class SyslogMessage(msgspec.Struct, omit_defaults=True):
    """What a message does not say is left out of the JSON."""

    time: str | None = None
    """RFC 3339, of the sender."""
    host: str | None = None
    facility: str | None = None
    severity: str | None = None
    app: str | None = None
    procid: str | None = None
    msgid: str | None = None
    data: StructuredData = {}
    message: str = ""
    parsed: bool = True
    """False: it is no syslog that we know, and `message` is all that came."""
    truncated: bool = False


def unparsed(frame: bytes) -> SyslogMessage:
    return SyslogMessage(message=text_of(frame), parsed=False)


def text_of(data: bytes) -> str:
    """Bytes that are no UTF-8 are written as \\xNN, so that they can be told from others."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="backslashreplace")


def read_priority(frame: bytes) -> tuple[int, int] | None:
    """(priority, where it ends) of `<34>`; None if there is none."""
    if not frame.startswith(b"<"):
        return None
    end = frame.find(b">", 2, 5)
    digits = frame[1:end]
    if end < 0 or not digits.isdigit() or (number := int(digits)) > MAX_PRIORITY:
        return None
    return number, end + 1
