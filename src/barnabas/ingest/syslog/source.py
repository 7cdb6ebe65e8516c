"""Syslog as a source of an agent. Nobody sends a message again: what was taken is kept until it is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import ClassVar

import msgspec

from barnabas.ingest.agent import Observed
from barnabas.ingest.batches import batches_of, largest_record
from barnabas.ingest.delivery import Collected
from barnabas.ingest.outbox import Outbox
from barnabas.ingest.sockets.endpoints import Endpoint, endpoints_of
from barnabas.ingest.sockets.framing import FrameDecoder
from barnabas.ingest.sockets.inbox import Inbox, ListenCounts, Received
from barnabas.ingest.sockets.listener import SocketListener
from barnabas.ingest.syslog.message import Message, text_of
from barnabas.ingest.syslog.parsing import parse_message
from barnabas.ingest.syslog.settings import SyslogSettings
from barnabas.ingest.topics import Topics
from barnabas.log_lines import safe_logger
from barnabas.records.builder import largest_encoded_size
from barnabas.records.compression import CODEC_BY_NAME
from barnabas.records.record import Header, Record
from barnabas.security.endpoints import is_this_machine

EVERY = 0.2
PIECE = 1024 * 1024
"""Bytes of messages in a transaction, before they are parsed; more at a time would keep the loop busy."""
PEER_HEADER = "peer"

_logger = safe_logger(__name__)


class SyslogSource:
    kind: ClassVar[str] = "syslog"

    def __init__(
        self, name: str, settings: SyslogSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self.settings = settings
        self.counts = ListenCounts()
        self._clock = clock
        self._inbox = Inbox(self.counts)
        self.listener = SocketListener(
            "syslog", settings, self._inbox, lambda: FrameDecoder(settings.max_message_bytes)
        )
        self._outbox: Outbox[list[Record]] = Outbox()
        self._next = 0.0
        self._topics: Topics | None = None
        self._is_ending = False
        endpoints_of(settings)  # refuses what cannot be meant before anything is opened

    @property
    def topics(self) -> list[str]:
        return [self.settings.topic]

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where it listens, once it does."""
        return self.listener.endpoints

    async def open(self, arrived: Callable[[], None]) -> None:
        await self.listener.open()
        _logger.info("syslog is taken on %s", ", ".join(map(str, self.listener.endpoints)))
        for endpoint in self.listener.endpoints:
            if not is_this_machine(endpoint.address.host) and not (
                endpoint.transport == "tls" and self.settings.tls_client_ca
            ):
                _logger.warning(
                    "%s can be reached from other machines and asks nobody for a name: whoever reaches it can write to "
                    "%s. Listen on 127.0.0.1, let a firewall keep others away, or use TLS with tls_client_ca",
                    *(endpoint, self.settings.topic),
                )

    def begin(self, positions: Mapping[str, bytes], topics: Topics) -> None:
        self._topics = topics
        self._outbox.begin(positions)

    def interrupted(self, error: Exception) -> None:
        """Messages are taken until the inbox is full."""

    def stop_taking(self) -> None:
        self._is_ending = True
        self.listener.stop_accepting()

    async def shut(self) -> None:
        self.listener.close()
        if lost := len(self._inbox) + sum(map(len, self._outbox.unsettled)):
            _logger.error("%d messages were taken and are lost: the broker did not take them in time", lost)

    def close(self) -> None:
        self.listener.close()

    def observe(self) -> Observed:
        counts = asdict(self.counts)
        return Observed(None, {**counts, "errors": self.counts.framing_errors + self.counts.unparsed})

    def collect(self, room: int) -> Collected:
        records = self._outbox.again()
        if records is None and self._is_due():
            self._next = self._clock() + EVERY
            records = [self._record(each) for each in self._inbox.take(min(room, PIECE))]
        if not records:
            return Collected()
        assert self._topics is not None, "begin first"
        number, positions = self._outbox.send(records)
        return Collected(
            list(batches_of(self.settings.topic, records, self._topics, codec=self._codec)),
            dict(positions),
            len(records),
            sum(len(record.value or b"") for record in records),
            committed=lambda: self._arrived(number),
        )

    def _arrived(self, number: int) -> None:
        self._outbox.arrived(number)

    def _is_due(self) -> bool:
        """One transaction for what comes in a fifth of a second, sooner if it is much."""
        return bool(len(self._inbox)) and (
            self._is_ending or self._inbox.size >= PIECE or self._clock() >= self._next
        )

    @property
    def _codec(self) -> int:
        return CODEC_BY_NAME[self.settings.compression]

    def _record(self, received: Received) -> Record:
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

    def _cut(self, received: Received, message: Message, limit: int) -> Record:
        """The topic takes less than this: its beginning, which in JSON may take six bytes for one."""
        self.counts.truncated += not message.truncated
        beginning = received.frame.data[: max(0, limit - 2048) // 8]
        short = Message(
            time=message.time,
            facility=message.facility,
            severity=message.severity,
            message=text_of(beginning),
            parsed=False,
            truncated=True,
        )
        return self._written(received, short, beginning)

    def _written(self, received: Received, message: Message, raw: bytes) -> Record:
        host = (message.host or received.peer)[:255]
        key = self.settings.key if self.settings.key is not None else host
        headers = (*self.settings.headers, (PEER_HEADER, received.peer.encode()))
        if self.settings.format == "raw":
            return Record(0, received.at, key.encode(), raw, (*headers, *_said_of(message, host)))
        return Record(0, received.at, key.encode(), msgspec.json.encode(message), headers)


def _said_of(message: Message, host: str) -> list[Header]:
    """What JSON has in fields, of a record whose value is the message as it came."""
    found: list[Header] = [("host", host.encode()), ("parsed", b"true" if message.parsed else b"false")]
    if message.facility is not None and message.severity is not None:
        found += [("facility", message.facility.encode()), ("severity", message.severity.encode())]
    if message.truncated:
        found.append(("truncated", b"true"))
    return found
