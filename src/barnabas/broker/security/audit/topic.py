"""The topic of the audit log. A broker that does not lead it sends its events to the one that does."""

from __future__ import annotations

import asyncio
import json
from typing import Protocol

from barnabas.common.clock import Clock
from barnabas.controller.topics import NewTopic
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.forwarding import ForwardingNeeds, create_topics
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.security.authz.audit import TOPIC, Event

BATCH_EVENTS = 500
ATTEMPTS = 20
PAUSE_SECONDS = 0.5
PRODUCE_TIMEOUT_MS = 10_000
ALL_IN_SYNC = -1
_SETTINGS = {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 3600 * 1000)}


class TopicNeeds(ForwardingNeeds, Protocol):
    @property
    def clock(self) -> Clock: ...


class AuditTopic:
    """One partition, so that events have an order."""

    def __init__(self, broker: TopicNeeds) -> None:
        self._broker = broker

    async def append(self, events: list[Event]) -> None:
        """KafkaError when they cannot be written for a while."""
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
        if TOPIC not in self._broker.image.topics:
            wanted = NewTopic(TOPIC, 1, -1, configs=_SETTINGS)
            error = (await create_topics(self._broker, [wanted]))[TOPIC]
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error

    async def _produce(self, events: list[Event]) -> None:
        state = self._broker.image.partition(TOPIC, 0)
        if state is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it is not there yet")
        now_ms = self._broker.clock.now_ms()
        records = [
            Record(offset, now_ms, None, json.dumps(event).encode()) for offset, event in enumerate(events)
        ]
        data = PartitionProduceData(0, build_batch(records))
        topic = TopicProduceData(TOPIC, self._broker.image.topics[TOPIC].topic_id, [data])
        request = ProduceRequest(None, ALL_IN_SYNC, PRODUCE_TIMEOUT_MS, [topic])
        response = await self._broker.peers.send(state.leader, request)
        error = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if error:
            raise KafkaError(error, "its leader refuses events")
