"""Status of agents, connectors, mirrors and pipelines: one value each in the compacted topic `__barnabas_status`.

Each reports every few seconds and at once when its state changes. Commands and the console read
it. A crashed process is detected by its overdue report.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec

from barnabas.client.cluster import Client
from barnabas.client.compacted_table import CompactedTable, create_if_missing
from barnabas.client.errors import ClientError
from barnabas.client.producer import Producer
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition

STATUS_TOPIC = "__barnabas_status"
TOPIC_SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(8 * 1024 * 1024)}
REPORT_SECONDS = 5.0
LOST_AFTER = 3
"""Missed reports after which a process counts as lost."""

Kind = Literal["agent", "connector", "mirror", "pipeline"]
State = Literal["starting", "running", "paused", "retrying", "failed", "stopped", "lost"]
"""`retrying` recovers automatically, `failed` needs an operator. `lost` is never written: readers derive it."""

_logger = safe_logger(__name__)


class StatusPart(msgspec.Struct, omit_defaults=True):
    """A source of an agent, a flow of a connector, a partition of a mirror."""

    name: str
    state: State = "running"
    reason: str = ""
    lag: int | None = None
    """In records, bytes for files; None: not known."""
    counts: dict[str, int | float] = {}
    kind: str = ""
    """Of an agent's source: files, syslog, host, statsd, http."""
    reads: list[str] = []
    """Topics read."""
    topics: list[str] = []
    """Topics written."""
    tables: list[str] = []
    """Tables, files and indexes written, without secrets."""
    groups: list[str] = []
    """Consumer groups in which lag tools see this flow."""
    broken: dict[str, int] = {}
    """Rows that broke a quality rule, as `dataset: rule`; rules that hold are there with 0."""
    watermark: str = ""
    """Event time before which windows are closed; rows of theirs are late."""


class ProcessStatus(msgspec.Struct, omit_defaults=True):
    kind: Kind
    name: str
    state: State
    host: str = ""
    process: int = 0
    started: int = 0
    updated: int = 0
    """Both in milliseconds."""
    every: float = REPORT_SECONDS
    """Seconds between two reports."""
    error: str = ""
    """Last error, and what to do."""
    alarms: list[str] = []
    counts: dict[str, int | float] = {}
    parts: list[StatusPart] = []

    @property
    def key(self) -> bytes:
        return f"{self.kind}/{self.name}".encode()

    def as_seen(self, now: float) -> ProcessStatus:
        """With `lost` as the state if reports are overdue."""
        if self.state in ("stopped", "failed") or now - self.updated / 1000 < LOST_AFTER * self.every:
            return self
        return msgspec.structs.replace(self, state="lost")


class StatusReporter:
    """Reports the status that `look` returns; fills in kind, name, process and times.

    Reporting errors never affect the reported work.
    """

    def __init__(
        self, client: Client, look: Callable[[], ProcessStatus], *, every: float = REPORT_SECONDS
    ) -> None:
        self._client = client
        self._look = look
        self._every = every
        self._started = time.time_ns() // 1_000_000
        self._state: State | None = None
        self._refused = False

    async def run(self) -> None:
        """Report periodically until cancelled."""
        due = 0.0
        while True:
            if time.monotonic() >= due or self._look().state != self._state:
                await self.report()
                due = time.monotonic() + self._every
            await asyncio.sleep(min(self._every, 0.5))

    async def report(self, state: State | None = None) -> None:
        """Report now; `state` overrides the state in the last report."""
        status = self._look()
        self._state = status.state
        status = msgspec.structs.replace(
            status,
            state=state or status.state,
            host=platform.node(),
            process=os.getpid(),
            started=self._started,
            updated=time.time_ns() // 1_000_000,
            every=self._every,
        )
        try:
            async with asyncio.timeout(self._every):  # wait_for may swallow a cancellation in Python 3.11
                await self._write(status)
            self._refused = False
        except (KafkaError, ClientError, TimeoutError) as error:
            if not self._refused:
                _logger.warning("cannot report the status to %s: %s", STATUS_TOPIC, error or "timeout")
            self._refused = True

    async def _write(self, status: ProcessStatus) -> None:
        await create_if_missing(self._client, STATUS_TOPIC, 1, TOPIC_SETTINGS)
        async with Producer(self._client) as producer:
            await producer.send(STATUS_TOPIC, msgspec.json.encode(status), status.key, partition=0)


class StatusTable:
    """Contents of the topic; each `read` continues after the previous one. Never creates the topic."""

    def __init__(self, client: Client, kind: Kind | None = None) -> None:
        self._client = client
        self._prefix = b"" if kind is None else f"{kind}/".encode()
        self._table = self._empty()

    async def read(self) -> list[ProcessStatus]:
        """Latest statuses, sorted by name."""
        metadata = await self._client.refresh([STATUS_TOPIC])
        if metadata.topics[STATUS_TOPIC].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._table = self._empty()
            return []
        await self._table.catch_up()
        now, found = time.time(), []
        for value in self._table.values.values():
            with suppress(msgspec.MsgspecError):  # written by a newer version
                found.append(msgspec.json.decode(value, type=ProcessStatus).as_seen(now))
        return sorted(found, key=lambda status: (status.kind, status.name))

    def _empty(self) -> CompactedTable:
        tp = TopicPartition(STATUS_TOPIC, 0)
        return CompactedTable(
            self._client,
            tp,
            lambda key: key.startswith(self._prefix),
            configs=TOPIC_SETTINGS,
            creates=False,
        )


async def read_statuses(client: Client, kind: Kind | None = None) -> list[ProcessStatus]:
    """Latest statuses, sorted by name; empty if the topic does not exist."""
    return await StatusTable(client, kind).read()


async def forget_status(client: Client, kind: Kind, name: str) -> None:
    """Delete the status of a process that will not run again."""
    async with Producer(client) as producer:
        await producer.send(STATUS_TOPIC, None, f"{kind}/{name}".encode(), partition=0)
