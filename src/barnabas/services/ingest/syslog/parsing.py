"""A frame becomes a message, whatever is in it."""

from __future__ import annotations

from datetime import datetime

from barnabas.services.ingest.syslog import rfc3164, rfc5424
from barnabas.services.ingest.syslog.message import (
    FACILITIES,
    SEVERITIES,
    Message,
    read_priority,
    text_of,
    unparsed,
)


def parse_message(frame: bytes, now: datetime) -> Message:
    """Never raises: what cannot be read is kept as it came, and says so."""
    found = read_priority(frame)
    if found is None:
        return unparsed(frame)
    priority, place = found
    if not frame.startswith(rfc5424.VERSION, place):
        return rfc3164.parse(priority, text_of(frame[place:]), now)
    try:
        return rfc5424.parse(priority, frame, place + len(rfc5424.VERSION))
    except rfc5424.NotSyslogError:
        message = unparsed(frame)
        message.facility, message.severity = FACILITIES[priority >> 3], SEVERITIES[priority & 7]
        return message
