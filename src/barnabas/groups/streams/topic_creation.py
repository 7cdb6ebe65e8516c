"""Creation of internal topics of streams groups when a heartbeat finds them missing.

A heartbeat does not wait for them. Failures are kept for a while, so that the next heartbeats report them without
asking the controller again. In Kafka: AutoTopicCreationManager.createStreamsInternalTopics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.coordination import Tasks
from barnabas.groups.streams.configured import InternalTopic
from barnabas.security import RequestContext

logger = rate_limited_logger(__name__)

MAX_FAILURES_KEPT = 1000  # as in Kafka

CreateTopics = Callable[[Sequence[InternalTopic], RequestContext], Awaitable[dict[str, KafkaError | None]]]
"""Creates topics on behalf of a client; returns the error of each."""


class _Failure(NamedTuple):
    text: str
    until: float


class StreamsTopics:
    def __init__(self, clock: Clock, create_topics: CreateTopics) -> None:
        self._clock = clock
        self._create_topics = create_topics
        self._in_progress: set[str] = set()
        self._failures: dict[str, _Failure] = {}
        self._tasks = Tasks()

    def create(self, topics: Iterable[InternalTopic], pause_ms: int, context: RequestContext) -> None:
        """Start to create topics that are not being created; `pause_ms`: time to wait after a failure."""
        self._forget_old_failures()
        wanted = [
            topic
            for topic in topics
            if topic.name not in self._in_progress and topic.name not in self._failures
        ]
        if wanted:
            self._in_progress.update(topic.name for topic in wanted)
            self._tasks.start(self._create(wanted, pause_ms, context))

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """Reasons why some of these could not be created."""
        return {name: self._failures[name].text for name in names if name in self._failures}

    def stop(self) -> None:
        self._tasks.stop()

    async def _create(self, wanted: list[InternalTopic], pause_ms: int, context: RequestContext) -> None:
        names = [topic.name for topic in wanted]
        try:
            results = await self._create_topics(wanted, context)
        except KafkaError as refusal:
            results = dict.fromkeys(names, refusal)
        finally:
            self._in_progress.difference_update(names)
        until = self._clock.monotonic() + pause_ms / 1000
        for name, error in results.items():
            if error is None:
                logger.info("created %r for a streams group", name)
            elif error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                logger.warning("%r, which a streams group needs, cannot be created: %s", name, error)
                self._failures[name] = _Failure(error.message or error.code.name, until)

    def _forget_old_failures(self) -> None:
        now = self._clock.monotonic()
        kept = {name: failure for name, failure in self._failures.items() if failure.until > now}
        self._failures = dict(list(kept.items())[-MAX_FAILURES_KEPT:])
