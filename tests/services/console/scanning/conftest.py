"""One pool of search processes and one topic with hard-to-read records, for all tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from confluent_kafka import Message

from barnabas.client.cluster import Client
from barnabas.client.opening import ConsumedRecord
from barnabas.common.loop_thread import LoopThread
from barnabas.network import new_event_loop
from barnabas.services.console.scanning.model import Hit, Hits, ScanEnd, Search, SearchEvent
from barnabas.services.console.scanning.process import Pool
from barnabas.services.console.scanning.scanner import Scanner
from barnabas.testing import EmbeddedBroker
from tests.tables.conftest import SETTINGS, fill, poll_all

T = TypeVar("T")
PARTITIONS = 3


class Searcher:
    """Searches for tests, which are no coroutines."""

    def __init__(self, loop: LoopThread, pool: Pool) -> None:
        self._loop = loop
        self.pool = pool

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        found: T = self._loop.run(work)
        return found

    def with_client(self, bootstrap: str, work: Callable[[Client], Awaitable[T]]) -> T:
        async def main() -> T:
            async with Client(bootstrap) as client:
                return await work(client)

        return self.run(main())

    def search(
        self, bootstrap: str, search: Search, scanner: Scanner | None = None
    ) -> tuple[list[Hit], ScanEnd]:
        own_scanner = scanner or Scanner(self.pool)

        async def work(client: Client) -> tuple[list[Hit], ScanEnd]:
            return await gather(own_scanner.search(client, search))

        return self.with_client(bootstrap, work)


async def gather(events: AsyncIterator[SearchEvent]) -> tuple[list[Hit], ScanEnd]:
    rows: list[Hit] = []
    async for event in events:
        if isinstance(event, Hits):
            rows += event.rows
        elif isinstance(event, ScanEnd):
            return rows, event
    raise AssertionError("a search ends with End")


@pytest.fixture(scope="package")
def searcher() -> Iterator[Searcher]:
    loop = LoopThread("searches", new_event_loop())
    pool = Pool(2)
    try:
        yield Searcher(loop, pool)
    finally:
        loop.run(pool.close())
        loop.close()


@pytest.fixture(scope="package")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(SETTINGS) as running:
        yield running


@pytest.fixture(scope="package")
def orders(broker: EmbeddedBroker) -> str:
    """All codecs, aborted and committed transactions, bad values, tombstones, records without a key."""
    topic = broker.create_topic("orders", partitions=PARTITIONS)
    fill(broker, topic, PARTITIONS, 600)
    return topic


@pytest.fixture(scope="package")
def records(broker: EmbeddedBroker, orders: str) -> list[ConsumedRecord]:
    """Records of a read_committed consumer."""
    return [as_record(message) for message in poll_all(broker, orders, PARTITIONS)]


def as_record(message: Message) -> ConsumedRecord:
    _, timestamp = message.timestamp()
    headers: Any = message.headers() or ()
    return ConsumedRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp,
        _bytes(message.key()),
        _bytes(message.value()),
        tuple((name, value) for name, value in headers),
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
