"""Writes the events of the audit log in batches, shortly after the first event of each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from barnabas.cluster import Peers
from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.threads import ThreadBackground
from barnabas.config.broker import BrokerConfig
from barnabas.controller import NewTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records import Record, build_batch
from barnabas.security.authz import TOPIC, AuditFile, AuditLog, AuditPolicy, Event, Selection, lines_of

# -- The audit topic: brokers other than its leader send their events to the leader --------------------

BATCH_EVENTS = 500
ATTEMPTS = 20
PAUSE_SECONDS = 0.5
PRODUCE_TIMEOUT_MS = 10_000
ALL_IN_SYNC = -1
_SETTINGS = {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 3600 * 1000)}


CreateTopics = Callable[[list[NewTopic]], Awaitable[dict[str, KafkaError | None]]]


class AuditTopic:
    """Topic with a single partition, so that events are ordered."""

    def __init__(
        self,
        peers: Peers,
        *,
        image: Callable[[], MetadataImage],
        clock: Clock,
        create_topics: CreateTopics,
    ) -> None:
        self._peers = peers
        self._image = image
        self._clock = clock
        self._create_topics = create_topics

    async def append(self, events: list[Event]) -> None:
        """Write events. Raises KafkaError if all attempts fail."""
        for start in range(0, len(events), BATCH_EVENTS):
            await self._append(events[start : start + BATCH_EVENTS])

    async def _append(self, events: list[Event]) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._create()
                await self._produce(events)
            except KafkaError as error:
                if attempt == ATTEMPTS:
                    raise KafkaError(error.code, f"{TOPIC} cannot be written: {error}") from error
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                return

    async def _create(self) -> None:
        if TOPIC not in self._image().topics:
            wanted = NewTopic(TOPIC, 1, -1, configs=_SETTINGS)
            error = (await self._create_topics([wanted]))[TOPIC]
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error

    async def _produce(self, events: list[Event]) -> None:
        image = self._image()
        state = image.partition(TOPIC, 0)
        if state is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it does not exist yet")
        now_ms = self._clock.now_ms()
        records = [
            Record(offset, now_ms, None, json.dumps(event).encode()) for offset, event in enumerate(events)
        ]
        data = PartitionProduceData(0, build_batch(records))
        topic = TopicProduceData(TOPIC, image.topics[TOPIC].topic_id, [data])
        request = ProduceRequest(None, ALL_IN_SYNC, PRODUCE_TIMEOUT_MS, [topic])
        response = await self._peers.send(state.leader, request)
        error = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if error:
            raise KafkaError(error, "its leader rejects events")


DELAY_SECONDS = 0.2
LAST_SECONDS = 5.0  # timeout for writing to the topic at shutdown

logger = safe_logger(__name__)


def audit_from(config: BrokerConfig, clock: Clock) -> AuditLog | None:
    """Return the audit log, or None if it is disabled."""
    if not config["barnabas.audit.file"] and not config["barnabas.audit.topic.enable"]:
        return None
    policy = AuditPolicy(
        frozenset(config["barnabas.audit.events"]),
        Selection.of(config["barnabas.audit.apis"]),
        Selection.of(name.upper() for name in config["barnabas.audit.operations"]),
        Selection.of(config["barnabas.audit.principals"]),
    )
    return AuditLog(policy, config.node_id, clock.now_ms, config["barnabas.audit.queue.size"])


class AuditWriter:
    """Writes queued events to the file and the topic. A no-op if the audit log is disabled."""

    def __init__(
        self, audit: AuditLog | None, config: BrokerConfig, threads: ThreadBackground, topic: AuditTopic
    ) -> None:
        self._audit = audit
        self._threads = threads
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        path = config["barnabas.audit.file"]
        self._file = (
            AuditFile(
                Path(path), config["barnabas.audit.file.max.bytes"], config["barnabas.audit.file.count"]
            )
            if path
            else None
        )
        self._topic = topic if config["barnabas.audit.topic.enable"] else None

    def start(self) -> None:
        """Start writing events as they arrive."""
        if self._audit is not None:
            self._audit.call_when_waiting(self._wake)
            self._wake()

    async def stop(self) -> None:
        """Write the remaining events."""
        self._is_stopped = True
        if (task := self._task) is not None:  # the task clears `_task` when it ends
            await asyncio.wait({task}, timeout=LAST_SECONDS)
            task.cancel()
        if self._audit is not None:
            try:
                async with asyncio.timeout(LAST_SECONDS):
                    await self._write(self._audit)
            except TimeoutError:
                logger.warning("the last events of the audit log could not be written")

    def abort(self) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def _wake(self) -> None:
        if self._task is None and not self._is_stopped:
            self._task = asyncio.ensure_future(self._write_soon())

    async def _write_soon(self) -> None:
        assert self._audit is not None
        try:
            while self._audit.is_waiting and not self._is_stopped:
                await asyncio.sleep(DELAY_SECONDS)
                await self._write(self._audit)
        finally:
            self._task = None

    async def _write(self, audit: AuditLog) -> None:
        events = audit.take()
        if not events:
            return
        await self._try(audit, events, self._to_file)
        await self._try(audit, events, self._to_topic)

    async def _try(
        self, audit: AuditLog, events: list[Event], write: Callable[[list[Event]], Awaitable[None]]
    ) -> None:
        try:
            await write(events)
        except (OSError, KafkaError) as error:
            audit.give_up(events)
            logger.error("%d events of the audit log could not be written: %s", len(events), error)

    async def _to_file(self, events: list[Event]) -> None:
        file = self._file
        if file is not None:
            await self._threads.call(lambda: file.write(lines_of(events)))

    async def _to_topic(self, events: list[Event]) -> None:
        if self._topic is not None:
            await self._topic.append(events)
