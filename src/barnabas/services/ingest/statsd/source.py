"""statsd source of an agent: aggregates measurements and reports them once per interval."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

import msgspec

from barnabas.records import Header, Record
from barnabas.services.ingest.delivery import Collected
from barnabas.services.ingest.sockets.framing import FrameDecoder
from barnabas.services.ingest.sockets.source import SocketSource
from barnabas.services.ingest.statsd.aggregation import Aggregation, parse_line

# -- Settings, with the same names on the command line and in agent.yml ---------------------------------

DEFAULT_LISTEN = "127.0.0.1:8125"


class StatsdSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: str
    host: str
    listen: str | list[str] = DEFAULT_LISTEN
    every: float = 10.0
    key: str | None = None
    """None: the name of the metric."""
    headers: tuple[Header, ...] = ()
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    max_message_bytes: int = 64 * 1024
    max_bytes: int = 64 * 1024 * 1024
    """Memory limit of all series of an interval; measurements above it are dropped and counted."""
    connections: int = 500
    idle_timeout: float = 3600.0
    compression: str = "none"


class StatsdSource(SocketSource):
    kind: ClassVar[str] = "statsd"

    def __init__(
        self, name: str, settings: StatsdSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if settings.every <= 0:
            raise ValueError("every is more than 0")
        super().__init__(name, settings, lambda: FrameDecoder(settings.max_message_bytes, counted=False))
        self.settings = settings
        self._clock = clock
        self._aggregation = Aggregation(settings.max_bytes)
        self._reported = clock()

    def collect(self, room: int) -> Collected:
        self._add_up(room)  # also while a report is being committed
        return super().collect(room)

    def _taken(self, room: int) -> list[Record]:
        is_due = self._is_ending or self._clock() - self._reported >= self.settings.every
        return self._report() if is_due else []

    def _add_up(self, room: int) -> None:
        """Aggregate received messages of one or more lines; ignore a truncated last line."""
        for received in self._inbox.take(room):
            lines = received.frame.data.decode(errors="replace").splitlines()
            whole = lines if received.frame.is_whole else lines[:-1]
            self.counts.truncated += len(lines) - len(whole)
            for line in filter(None, whole):
                measured = parse_line(line)
                if measured is None:
                    self.counts.unparsed += 1
                elif not self._aggregation.add(measured):
                    self.counts.dropped += 1

    def _report(self) -> list[Record]:
        now = self._clock()
        seconds, self._reported = max(now - self._reported, 0.001), now
        at = int(time.time() * 1000)
        records = []
        for report in self._aggregation.report(seconds):
            value = msgspec.json.encode({"time": at, "host": self.settings.host, **report})
            key = report["name"] if self.settings.key is None else self.settings.key
            records.append(Record(0, at, key.encode(errors="replace"), value, self.settings.headers))
        return records
