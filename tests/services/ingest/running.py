"""An agent in a thread, with access to its sources; output read with librdkafka."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self
from uuid import uuid4

from confluent_kafka import Consumer

from barnabas.client.cluster import Client
from barnabas.services.ingest.agent import Agent, IngestSource
from tests.support.waiting import until

DEADLINE = 60.0


class RunningAgent:
    def __init__(
        self, bootstrap: str, sources: Sequence[IngestSource], name: str | None = None, patience: float = 10.0
    ) -> None:
        self._bootstrap = bootstrap
        self._patience = patience
        self._sources = sources
        self.name = name or f"agent-{uuid4().hex}"
        self.agent: Agent | None = None
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self._is_listening() or self.error, "the agent runs")
        if self.error is not None:
            raise self.error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    def call(self, function: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(function)

    def _is_listening(self) -> bool:
        return self.agent is not None and all(getattr(each, "endpoints", True) for each in self._sources)

    def _work(self) -> None:
        try:
            self._loop.run_until_complete(self._run())
        except BaseException as error:
            self.error = error
        finally:
            self._loop.close()

    async def _run(self) -> None:
        async with Client(self._bootstrap, total_timeout=self._patience) as client:
            self.agent = Agent(client, self.name, self._sources)
            await self.agent.run(self._stop)


class Found(NamedTuple):
    key: bytes | None
    value: bytes
    headers: dict[str, bytes]


def read_records(bootstrap: str, topic: str, count: int) -> list[Found]:
    """The committed ones, until there are so many."""
    return read_until(bootstrap, topic, lambda found: len(found) >= count)


def read_until(bootstrap: str, topic: str, enough: Callable[[list[Found]], bool]) -> list[Found]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid4().hex,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 200,
        }
    )
    consumer.subscribe([topic])
    found: list[Found] = []
    deadline = time.monotonic() + DEADLINE
    try:
        while not enough(found) and time.monotonic() < deadline:
            found += [
                Found(each.key(), each.value() or b"", dict(each.headers() or ()))  # type: ignore[arg-type]
                for each in consumer.consume(1000, 0.2)
                if each.error() is None
            ]
    finally:
        consumer.close()
    return found
