"""HTTP source of an agent: commits posted records together with their idempotency keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import ClassVar

from barnabas.client import Address
from barnabas.common.clock import SystemClock
from barnabas.common.safe_logging import safe_logger
from barnabas.records.compression import CODEC_BY_NAME
from barnabas.security.tls import context_of_files
from barnabas.services.ingest.agent import SourceStatus
from barnabas.services.ingest.batches import BatchTopics, batches_of, largest_record
from barnabas.services.ingest.delivery import Collected
from barnabas.services.ingest.http.app import ProduceApp
from barnabas.services.ingest.http.door import HttpCounts, PublishQueue, RequestBatch
from barnabas.services.ingest.http.settings import HttpSettings, check_settings
from barnabas.services.ingest.outbox import Outbox
from barnabas.web import WebServer, bind

# -- HTTP server ----------------------------------------------------------------------------------------

_logger = safe_logger(__name__)


class ProduceServer:
    def __init__(self, settings: HttpSettings, door: PublishQueue) -> None:
        """Raises for invalid settings, and for settings that allow unauthenticated remote writes."""
        self._settings = settings
        self._address = check_settings(settings)
        self._app = ProduceApp(settings, door)
        self._http: WebServer | None = None
        self.address: Address | None = None
        """Bound address with the actual port."""

    @property
    def url(self) -> str:
        scheme = "http" if self._settings.tls_certificate is None else "https"
        return f"{scheme}://{self.address or self._address}"

    async def start(self) -> None:
        settings, tls = self._settings, None
        if settings.tls_certificate is not None:
            tls = context_of_files("http", settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
        listening = bind(*self._address)
        try:
            self._http = WebServer(self._app, tls, settings.limits)
            await self._http.start(listening)
        except BaseException:
            listening.close()
            raise
        self.address = Address(self._address.host, listening.getsockname()[1])
        _logger.info("accepting records on %s", self.url)

    def stop_accepting(self) -> None:
        if self._http is not None:
            self._http.stop_accepting()

    async def stop(self) -> None:
        if self._http is not None:
            await self._http.stop()
            self._http = None


STOPPING = "the agent is stopping"


class HttpSource:
    kind: ClassVar[str] = "http"

    def __init__(self, name: str, settings: HttpSettings) -> None:
        """Raises for invalid settings, and for settings that allow unauthenticated remote writes."""
        self.name = name
        self.settings = settings
        clock = SystemClock()
        self.door = PublishQueue(
            settings, lambda: clock.expiry_ms() / 1000
        )  # a clock that jumps ahead does not expire keys
        self._server = ProduceServer(settings, self.door)
        self._outbox: Outbox[RequestBatch] = Outbox()
        self._topics: BatchTopics | None = None
        self._is_ending = False

    @property
    def topics(self) -> list[str]:
        return [self.settings.topic]

    @property
    def counts(self) -> HttpCounts:
        return self.door.counts

    @property
    def endpoints(self) -> list[Address]:
        """Bound addresses; empty before `open`."""
        return [] if self._server.address is None else [self._server.address]

    @property
    def url(self) -> str:
        return self._server.url

    async def open(self, arrived: Callable[[], None]) -> None:
        self.door.arrived = arrived
        await self._server.start()

    def begin(self, positions: Mapping[str, bytes], topics: BatchTopics) -> None:
        self._topics = topics
        for parcel in self._outbox.begin(positions):
            self.door.committed(parcel)
        if not self._is_ending:
            self.door.begin(positions, largest_record(topics, self.settings.topic))

    def interrupted(self, error: Exception) -> None:
        self.door.closed = str(error)

    def stop_taking(self) -> None:
        self._is_ending = True
        self.door.closed = STOPPING
        self._server.stop_accepting()

    async def shut(self) -> None:
        self.door.closed = STOPPING
        await self._server.stop()

    def close(self) -> None:
        """Nothing to close: `shut` stops the server."""

    def observe(self) -> SourceStatus:
        return SourceStatus(None, {**asdict(self.counts), "errors": self.counts.failed})

    def collect(self, room: int) -> Collected:
        parcel = self._outbox.again() or self.door.take(room)
        if parcel is None:
            return Collected()
        assert self._topics is not None, "begin first"
        number, positions = self._outbox.send(parcel)
        entry, keys = self.door.keys_of(parcel)
        records = parcel.records
        codec = CODEC_BY_NAME[self.settings.compression]
        return Collected(
            list(batches_of(self.settings.topic, records, self._topics, codec=codec, keyless=number)),
            {**positions, **keys},
            len(records),
            sum(post.size for post in parcel.posts),
            committed=lambda: self._committed(number, parcel, entry),
        )

    def _committed(self, number: int, parcel: RequestBatch, entry: int) -> None:
        self._outbox.arrived(number)
        self.door.committed(parcel, entry)
