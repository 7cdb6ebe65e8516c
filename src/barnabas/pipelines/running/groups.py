"""How far each flow is, as the offsets of a consumer group of its own: what every tool that shows lag reads.

The offsets are those of Spark's report on a micro-batch, which it makes when the batch is done and noted in the
checkpoint. So what is committed is never ahead of what is processed. It is never used for a restart.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from barnabas.client.errors import ClientError
from barnabas.client.groups import commit_offsets
from barnabas.client.offsets import end_offsets
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.pipelines.running.broker_checks import StreamTopics
from barnabas.pipelines.running.progress import lag_of
from barnabas.spark import BrokerLink

logger = logging.getLogger(__name__)

T = TypeVar("T")
TIMEOUT = 5.0  # seconds for one request with its attempts: the runner has other things to do, and asks again
SILENCE_PAUSE = 10.0  # seconds before brokers that did not answer are asked again, for whichever flow
REFUSAL_PAUSE = (
    60.0  # seconds before a commit that was refused is tried again: members are there, or rights lack
)
# Seconds that last commits may wait in vain, all flows together: they are tried in any pause, and the run is to end.
LAST_PATIENCE = 15.0
AGAIN = 3600.0  # seconds: brokers forget offsets that are a week old, and a topic may be silent for longer

Reached = Mapping[TopicPartition, int]


class FlowGroups:
    """For the flows of one pipeline, by name, with the group and the sources of each. For any thread."""

    def __init__(
        self,
        flows: Mapping[str, tuple[str, Sequence[StreamTopics]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._flows = {name: FlowGroup(*flow, clock) for name, flow in flows.items()}
        self._links: dict[tuple[tuple[str, Any], ...], BrokerLink] = {}
        self._clock = clock
        self._not_before = -math.inf
        self._waited_in_vain = 0.0
        self._lock = threading.Lock()

    def names_of(self, flow: str) -> list[str]:
        return self._flows[flow].names

    def commit(self, flow: str, reached: Reached, *, last: bool = False) -> None:
        """Tell the brokers, unless they know it already. A failure is no reason for a flow to stop."""
        group = self._flows[flow]
        if group.is_due(reached, last):
            self._ask(
                lambda: self._commit(group, reached),
                f"the progress of group {group.name} could not be committed",
                last=last,
            )

    def lag(self, flow: str, reached: Reached) -> int | None:
        """Records after those that were reached; None when the brokers do not say, because it is only shown."""
        parts = list(_parts(reached, self._flows[flow].sources))
        if not parts:
            return None
        return self._ask(lambda: sum(self._lag(*part) for part in parts), f"the lag of {flow} is unknown")

    def close(self) -> None:
        with self._lock:
            for link in self._links.values():
                link.close()
            self._links.clear()

    def _ask(self, question: Callable[[], T], failure: str, *, last: bool = False) -> T | None:
        with self._lock:
            if not self._may_ask(last):
                return None
            began = self._clock()
            try:
                answer = question()
            except KafkaError as error:
                logger.warning("%s: %s", failure, error)
                return None
            except (ClientError, OSError) as error:
                self._not_before = self._clock() + SILENCE_PAUSE
                self._waited_in_vain += self._clock() - began if last else 0.0
                logger.warning("%s: %s", failure, error)
                return None
            self._not_before, self._waited_in_vain = -math.inf, 0.0
            return answer

    def _may_ask(self, last: bool) -> bool:
        return self._clock() >= self._not_before or (last and self._waited_in_vain < LAST_PATIENCE)

    def _commit(self, group: FlowGroup, reached: Reached) -> None:
        left = [source for source in group.sources if source.is_left_to_the_flow]
        try:
            for source, part in _parts(reached, left):
                link = self._link(source)
                self._run(link, commit_offsets(link.client, group.name, part))
        except KafkaError:
            group.refused()
            raise
        group.committed(reached)

    def _lag(self, source: StreamTopics, reached: Reached) -> int:
        link = self._link(source)
        return lag_of(reached, self._run(link, end_offsets(link.client, list(reached))))

    def _link(self, source: StreamTopics) -> BrokerLink:
        settings = {
            **source.settings.client.link,
            "client_id": "barnabas-pipeline",
            "total_timeout": TIMEOUT,
        }
        key = tuple(sorted(settings.items()))
        if key not in self._links:
            self._links[key] = BrokerLink(**settings)
        return self._links[key]

    @staticmethod
    def _run(link: BrokerLink, work: Coroutine[Any, Any, T]) -> T:
        return link.run(asyncio.wait_for(work, TIMEOUT))


class FlowGroup:
    """One flow: the name of its group, what it reads, and what was committed last."""

    def __init__(self, name: str, sources: Sequence[StreamTopics], clock: Callable[[], float]) -> None:
        self.name = name
        self.sources = list(sources)
        self._clock = clock
        self._committed: Reached = {}
        self._committed_at = self._refused_at = -math.inf

    @property
    def names(self) -> list[str]:
        """All groups in which the progress of this flow is seen: a source may have one of the author's choice."""
        names = [self.name if each.is_left_to_the_flow else each.settings.group for each in self.sources]
        return sorted({name for name in names if name is not None})

    def is_due(self, reached: Reached, last: bool) -> bool:
        """Whether there is something to tell; after a refusal only now and then, and when nothing more will come."""
        now = self._clock()
        is_news = bool(reached) and (reached != self._committed or now - self._committed_at >= AGAIN)
        return is_news and (last or now - self._refused_at >= REFUSAL_PAUSE)

    def refused(self) -> None:
        self._refused_at = self._clock()

    def committed(self, reached: Reached) -> None:
        self._committed, self._committed_at = dict(reached), self._clock()


def _parts(reached: Reached, sources: Sequence[StreamTopics]) -> Iterator[tuple[StreamTopics, Reached]]:
    """Each partition with one of the sources that read it."""
    left = dict(reached)
    for source in sources:
        part = {tp: left.pop(tp) for tp in reached if tp in left and source.reads(tp.topic)}
        if part:
            yield source, part
