"""Internal topics of streams groups: the broker creates them when a heartbeat shows that they are missing.

A heartbeat does not wait for them. What could not be created is remembered for a while, so that members hear of it
with their next heartbeats, and the controller is not asked again with each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.controller.topics import NewTopic
from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.streams.configured import InternalTopic
from barnabas.log_lines import limited_logger
from barnabas.server.forwarding import create_topics

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = limited_logger(__name__)

MOST_FAILURES_KEPT = 1000  # as in Kafka


class _Failure(NamedTuple):
    text: str
    until: float


class StreamsTopics:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._under_way: set[str] = set()
        self._failures: dict[str, _Failure] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def create(self, topics: Iterable[InternalTopic], pause_ms: int) -> None:
        """Begin to create those that nobody creates already; `pause_ms`: after a failure, wait so long."""
        self._forget_old_failures()
        wanted = [
            topic
            for topic in topics
            if topic.name not in self._under_way and topic.name not in self._failures
        ]
        if wanted:
            self._under_way.update(topic.name for topic in wanted)
            task = asyncio.get_running_loop().create_task(self._create(wanted, pause_ms))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """Why some of these could not be created."""
        return {name: self._failures[name].text for name in names if name in self._failures}

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _create(self, wanted: list[InternalTopic], pause_ms: int) -> None:
        names = [topic.name for topic in wanted]
        try:
            results = await create_topics(self._broker, [_new_topic(topic) for topic in wanted])
        except KafkaError as refusal:
            results = dict.fromkeys(names, refusal)
        finally:
            self._under_way.difference_update(names)
        until = self._broker.clock.monotonic() + pause_ms / 1000
        for name, error in results.items():
            if error is None:
                logger.info("created %r for a streams group", name)
            elif error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                logger.warning("%r, which a streams group needs, cannot be created: %s", name, error)
                self._failures[name] = _Failure(error.message or error.code.name, until)

    def _forget_old_failures(self) -> None:
        now = self._broker.clock.monotonic()
        kept = {name: failure for name, failure in self._failures.items() if failure.until > now}
        self._failures = dict(list(kept.items())[-MOST_FAILURES_KEPT:])


def _new_topic(topic: InternalTopic) -> NewTopic:
    return NewTopic(topic.name, topic.partitions, topic.replication_factor, configs=dict(topic.configs))
