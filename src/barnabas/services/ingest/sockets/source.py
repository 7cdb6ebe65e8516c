"""Base class of sources that receive messages over sockets: syslog and statsd.

Clients do not resend messages, so received messages are kept until they are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import ClassVar, Protocol

from barnabas.common.safe_logging import safe_logger
from barnabas.records import Record
from barnabas.records.compression import CODEC_BY_NAME
from barnabas.security import is_this_machine
from barnabas.services.ingest.agent import SourceStatus
from barnabas.services.ingest.batches import BatchTopics, batches_of
from barnabas.services.ingest.delivery import Collected
from barnabas.services.ingest.outbox import Outbox
from barnabas.services.ingest.sockets.endpoints import ListenSettings, SocketEndpoint, endpoints_of
from barnabas.services.ingest.sockets.framing import StreamDecoder
from barnabas.services.ingest.sockets.inbox import Inbox, ListenCounts
from barnabas.services.ingest.sockets.listener import SocketListener

_logger = safe_logger(__name__)


class SocketSettings(ListenSettings, Protocol):
    @property
    def topic(self) -> str: ...

    @property
    def compression(self) -> str: ...


class SocketSource:
    """Base class; subclasses implement `_taken`."""

    kind: ClassVar[str]

    def __init__(self, name: str, settings: SocketSettings, decoder: Callable[[], StreamDecoder]) -> None:
        endpoints_of(settings)  # validates the settings before any socket is opened
        self.name = name
        self.counts = ListenCounts()
        self._listening = settings
        self._inbox = Inbox(self.counts)
        self.listener = SocketListener(self.kind, settings, self._inbox, decoder)
        self._outbox: Outbox[list[Record]] = Outbox()
        self._topics: BatchTopics | None = None
        self._is_ending = False

    def _taken(self, room: int) -> list[Record]:
        """Return the records that are due, about `room` bytes."""
        raise NotImplementedError

    @property
    def topics(self) -> list[str]:
        return [self._listening.topic]

    @property
    def endpoints(self) -> list[SocketEndpoint]:
        """Bound endpoints; empty before `open`."""
        return self.listener.endpoints

    async def open(self, arrived: Callable[[], None]) -> None:
        await self.listener.open()
        _logger.info("accepting %s on %s", self.kind, ", ".join(map(str, self.endpoints)))
        for endpoint in self.endpoints:
            if not is_this_machine(endpoint.address.host) and not (
                endpoint.transport == "tls" and self._listening.tls_client_ca
            ):
                _logger.warning(
                    "%s is reachable from other machines without authentication: any client can write to %s. Listen on "
                    "127.0.0.1, restrict access with a firewall, or use TLS with tls_client_ca",
                    *(endpoint, self._listening.topic),
                )

    def begin(self, positions: Mapping[str, bytes], topics: BatchTopics) -> None:
        self._topics = topics
        self._outbox.begin(positions)

    def interrupted(self, error: Exception) -> None:
        """No action: messages are accepted until the inbox is full."""

    def stop_taking(self) -> None:
        self._is_ending = True
        self.listener.stop_accepting()

    async def shut(self) -> None:
        self.listener.close()
        if lost := len(self._inbox) + sum(map(len, self._outbox.unsettled)):
            _logger.error("%d received messages were lost: the broker did not acknowledge them in time", lost)

    def close(self) -> None:
        self.listener.close()

    def observe(self) -> SourceStatus:
        return SourceStatus(
            None, {**asdict(self.counts), "errors": self.counts.framing_errors + self.counts.unparsed}
        )

    def collect(self, room: int) -> Collected:
        records = self._outbox.again()
        if records is None:
            records = self._taken(room)
        if not records:
            return Collected()
        assert self._topics is not None, "begin first"
        number, positions = self._outbox.send(records)
        codec = CODEC_BY_NAME[self._listening.compression]
        return Collected(
            list(batches_of(self._listening.topic, records, self._topics, codec=codec)),
            dict(positions),
            len(records),
            sum(len(record.value or b"") for record in records),
            committed=lambda: self._arrived(number),
        )

    def _arrived(self, number: int) -> None:
        self._outbox.arrived(number)
