"""Syslog source of an agent: one record per message."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import ClassVar, Literal

import msgspec

from barnabas.records import Header, Record, largest_encoded_size
from barnabas.services.ingest.batches import largest_record
from barnabas.services.ingest.sockets.framing import FrameDecoder
from barnabas.services.ingest.sockets.inbox import ReceivedMessages
from barnabas.services.ingest.sockets.source import SocketSource
from barnabas.services.ingest.syslog.parser import SyslogMessage, parse_message, text_of

# -- Settings, with the same names on the command line and in agent.yml ---------------------------------

DEFAULT_LISTEN = "127.0.0.1:5514"


class SyslogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: str
    listen: str | list[str] = DEFAULT_LISTEN
    """`HOST:PORT` means UDP and TCP, or TLS with a certificate; `udp://`, `tcp://` and `tls://` are explicit."""
    format: Literal["json", "raw"] = "json"
    key: str | None = None
    """None: the host named in the message, or the peer address."""
    headers: tuple[Header, ...] = ()
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    """CA that must have signed the client certificates."""
    max_message_bytes: int = 64 * 1024
    connections: int = 500
    idle_timeout: float = 3600.0
    """Seconds. Long, because rsyslog loses a message when its connection is closed."""
    compression: str = "none"


EVERY = 0.2
PIECE = 1024 * 1024
"""Maximum unparsed bytes per transaction; more would block the event loop for too long."""
PEER_HEADER = "peer"


class SyslogSource(SocketSource):
    kind: ClassVar[str] = "syslog"

    def __init__(
        self, name: str, settings: SyslogSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(name, settings, lambda: FrameDecoder(settings.max_message_bytes))
        self.settings = settings
        self._clock = clock
        self._next = 0.0

    def _taken(self, room: int) -> list[Record]:
        if not self._is_due():
            return []
        self._next = self._clock() + EVERY
        return [self._record(each) for each in self._inbox.take(min(room, PIECE))]

    def _is_due(self) -> bool:
        """True if a batch is due: every EVERY seconds, or sooner once PIECE bytes are queued."""
        return bool(len(self._inbox)) and (
            self._is_ending or self._inbox.size >= PIECE or self._clock() >= self._next
        )

    def _record(self, received: ReceivedMessages) -> Record:
        now = datetime.fromtimestamp(received.at / 1000, UTC).astimezone()
        message = parse_message(received.frame.data, now)
        self.counts.unparsed += not message.parsed
        if not received.frame.is_whole:
            message.truncated = True
            self.counts.truncated += 1
        record = self._written(received, message, received.frame.data)
        assert self._topics is not None
        limit = largest_record(self._topics, self.settings.topic)
        return record if largest_encoded_size(record) <= limit else self._cut(received, message, limit)

    def _cut(self, received: ReceivedMessages, message: SyslogMessage, limit: int) -> Record:
        """Truncate a message that exceeds the topic's limit. JSON may escape one byte as six."""
        self.counts.truncated += not message.truncated
        beginning = received.frame.data[: max(0, limit - 2048) // 8]
        short = SyslogMessage(
            time=message.time,
            facility=message.facility,
            severity=message.severity,
            message=text_of(beginning),
            parsed=False,
            truncated=True,
        )
        return self._written(received, short, beginning)

    def _written(self, received: ReceivedMessages, message: SyslogMessage, raw: bytes) -> Record:
        host = (message.host or received.peer)[:255]
        key = self.settings.key if self.settings.key is not None else host
        headers = (*self.settings.headers, (PEER_HEADER, received.peer.encode()))
        if self.settings.format == "raw":
            return Record(0, received.at, key.encode(), raw, (*headers, *_said_of(message, host)))
        return Record(0, received.at, key.encode(), msgspec.json.encode(message), headers)


def _said_of(message: SyslogMessage, host: str) -> list[Header]:
    """Return headers for a raw record with the fields that JSON records have in the value."""
    found: list[Header] = [("host", host.encode()), ("parsed", b"true" if message.parsed else b"false")]
    if message.facility is not None and message.severity is not None:
        found += [("facility", message.facility.encode()), ("severity", message.severity.encode())]
    if message.truncated:
        found.append(("truncated", b"true"))
    return found
