"""statsd as a source of an agent: what programs send is added up, and reported every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import ClassVar

import msgspec

from barnabas.ingest.agent import Observed
from barnabas.ingest.batches import batches_of
from barnabas.ingest.delivery import Collected
from barnabas.ingest.outbox import Outbox
from barnabas.ingest.sockets.endpoints import Endpoint, endpoints_of
from barnabas.ingest.sockets.framing import FrameDecoder
from barnabas.ingest.sockets.inbox import Inbox, ListenCounts
from barnabas.ingest.sockets.listener import SocketListener
from barnabas.ingest.statsd.aggregation import Aggregation
from barnabas.ingest.statsd.parsing import parse_line
from barnabas.ingest.statsd.settings import StatsdSettings
from barnabas.ingest.topics import Topics
from barnabas.log_lines import safe_logger
from barnabas.records.compression import CODEC_BY_NAME
from barnabas.records.record import Record

_logger = safe_logger(__name__)


class StatsdSource:
    kind: ClassVar[str] = "statsd"

    def __init__(
        self, name: str, settings: StatsdSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self.settings = settings
        self.counts = ListenCounts()
        self._clock = clock
        self._inbox = Inbox(self.counts)
        self.listener = SocketListener(
            "statsd", settings, self._inbox, lambda: FrameDecoder(settings.max_message_bytes, counted=False)
        )
        self._aggregation = Aggregation()
        self._outbox: Outbox[list[Record]] = Outbox()
        self._reported = clock()
        self._topics: Topics | None = None
        self._is_ending = False
        endpoints_of(settings)  # refuses what cannot be meant before anything is opened
        if settings.every <= 0:
            raise ValueError("every is more than 0")

    @property
    def topics(self) -> list[str]:
        return [self.settings.topic]

    @property
    def endpoints(self) -> list[Endpoint]:
        return self.listener.endpoints

    async def open(self, arrived: Callable[[], None]) -> None:
        await self.listener.open()

    def begin(self, positions: Mapping[str, bytes], topics: Topics) -> None:
        self._topics = topics
        self._outbox.begin(positions)

    def interrupted(self, error: Exception) -> None:
        """Measurements are taken until the inbox is full."""

    def stop_taking(self) -> None:
        self._is_ending = True
        self.listener.stop_accepting()

    async def shut(self) -> None:
        self.listener.close()

    def close(self) -> None:
        self.listener.close()

    def observe(self) -> Observed:
        return Observed(None, {**asdict(self.counts), "errors": self.counts.unparsed})

    def collect(self, room: int) -> Collected:
        self._add_up(room)
        records = self._outbox.again()
        if records is None and (self._is_ending or self._clock() - self._reported >= self.settings.every):
            records = self._report()
        if not records:
            return Collected()
        assert self._topics is not None, "begin first"
        number, positions = self._outbox.send(records)
        codec = CODEC_BY_NAME[self.settings.compression]
        return Collected(
            list(batches_of(self.settings.topic, records, self._topics, codec=codec)),
            dict(positions),
            len(records),
            sum(len(record.value or b"") for record in records),
            committed=lambda: self._arrived(number),
        )

    def _arrived(self, number: int) -> None:
        self._outbox.arrived(number)

    def _add_up(self, room: int) -> None:
        """A datagram may have many lines, and what was cut is not taken for a measurement."""
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
