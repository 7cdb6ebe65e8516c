"""Collects the progress of a pipeline's flows, and commits it to their consumer groups."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.sql.streaming.query import StreamingQuery

from barnabas.client import ClientError
from barnabas.client.groups import commit_offsets
from barnabas.client.offsets import end_offsets
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.pipelines.definitions.files import PipelineFiles
from barnabas.pipelines.definitions.settings import FlowSettings
from barnabas.pipelines.running.broker_checks import StreamTopics, topic_sources
from barnabas.pipelines.running.plan import Planned, ToLake, ToSink, ToTable, location_of
from barnabas.pipelines.running.progress import FlowProgress, lag_of, merge_reports, offsets_reached
from barnabas.spark import BrokerLink

# -- Offsets of consumer groups, for lag monitoring tools ----------------------------------------------
# They come from Spark's progress report, published after a micro-batch is recorded in the checkpoint, so committed
# offsets are never ahead of processing. They are never used for a restart.

logger = logging.getLogger(__name__)

T = TypeVar("T")
TIMEOUT = 5.0  # seconds per request including retries: short, because it blocks the runner
SILENCE_PAUSE = 10.0  # seconds before the next request, for any flow, to brokers that did not respond
REFUSAL_PAUSE = (
    60.0  # seconds before a rejected commit is retried: the group has members, or rights are missing
)
# Total seconds that final commits of all flows may time out: they ignore the pauses, and the run must end.
LAST_TIMEOUT = 15.0
AGAIN = 3600.0  # seconds: brokers expire offsets after a week, and a topic may be idle for longer

Reached = Mapping[TopicPartition, int]


class FlowGroups:
    """Consumer groups and sources of a pipeline's flows, by flow name. Thread-safe."""

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
        """Commit new offsets. A failure is logged and does not stop the flow."""
        group = self._flows[flow]
        if group.is_due(reached, last):
            self._ask(
                lambda: self._commit(group, reached),
                f"the progress of group {group.name} could not be committed",
                last=last,
            )

    def lag(self, flow: str, reached: Reached) -> int | None:
        """Return the number of records after `reached`; None if the brokers do not respond: lag is informational."""
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
        return self._clock() >= self._not_before or (last and self._waited_in_vain < LAST_TIMEOUT)

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
    """One flow: its group name, its sources and the last committed offsets."""

    def __init__(self, name: str, sources: Sequence[StreamTopics], clock: Callable[[], float]) -> None:
        self.name = name
        self.sources = list(sources)
        self._clock = clock
        self._committed: Reached = {}
        self._committed_at = self._refused_at = -math.inf

    @property
    def names(self) -> list[str]:
        """All groups with the progress of this flow: a source may have a group chosen by the author."""
        names = [self.name if each.is_left_to_the_flow else each.settings.group for each in self.sources]
        return sorted({name for name in names if name is not None})

    def is_due(self, reached: Reached, last: bool) -> bool:
        """True if there are offsets to commit; after a rejection only after a pause, or for the last commit."""
        now = self._clock()
        is_news = bool(reached) and (reached != self._committed or now - self._committed_at >= AGAIN)
        return is_news and (last or now - self._refused_at >= REFUSAL_PAUSE)

    def refused(self) -> None:
        self._refused_at = self._clock()

    def committed(self, reached: Reached) -> None:
        self._committed, self._committed_at = dict(reached), self._clock()


def _parts(reached: Reached, sources: Sequence[StreamTopics]) -> Iterator[tuple[StreamTopics, Reached]]:
    """Assign each partition to one of the sources that read it."""
    left = dict(reached)
    for source in sources:
        part = {tp: left.pop(tp) for tp in reached if tp in left and source.reads(tp.topic)}
        if part:
            yield source, part


LAG_SECONDS = 2.0  # between two lag requests to the broker

Group = tuple[str, Sequence[StreamTopics]]


class Reporting:
    """Progress of all flows; `flows` maps names to progress."""

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self._groups = FlowGroups(groups)
        self.flows = {name: FlowProgress(name, groups=self._groups.names_of(name)) for name in groups}
        self._lag_asked = 0.0

    def take(self, name: str, query: StreamingQuery, *, last: bool) -> None:
        """Process the recent reports of a query; `last` if no more will follow."""
        reports = [json.loads(report.json) for report in query.recentProgress]
        merge_reports(reports, self.flows[name])
        if reports:
            self.tell(name, offsets_reached(reports[-1]), last=last)

    def tell(self, name: str, reached: Reached, *, last: bool) -> None:
        """Commit the offsets of a flow to its group, and update its lag periodically."""
        flow = self.flows[name]
        flow.reads = flow.reads or sorted({tp.topic for tp in reached})  # of a pattern, once they are known
        self._groups.commit(name, reached, last=last)
        if last or time.monotonic() - self._lag_asked >= LAG_SECONDS:
            lag = self._groups.lag(name, reached)
            flow.lag = flow.lag if lag is None else lag

    def end_round(self) -> None:
        """Restart the lag interval after all flows were processed."""
        if time.monotonic() - self._lag_asked >= LAG_SECONDS:
            self._lag_asked = time.monotonic()

    def close(self) -> None:
        self._groups.close()


def reporting_of(files: PipelineFiles, streams: Sequence[Planned]) -> Reporting:
    """Return the progress of all flows, with the topics and tables that each reads and writes."""
    sources = {query.name: topic_sources(query.frame) for query in streams}
    reporting = Reporting({name: (_group(files, name), each) for name, each in sources.items()})
    for query in streams:
        flow = reporting.flows[query.name]
        wanted = [each.settings.subscription for each in sources[query.name]]
        flow.reads = sorted(
            {
                *(topic for each in wanted for topic in each.topics),
                *(tp.topic for each in wanted for tp in each.assigned),
            }
        )
        flow.topics, flow.tables = _written(query)
    return reporting


def _written(query: Planned) -> tuple[list[str], list[str]]:
    """Topics and tables."""
    target = query.target
    if isinstance(target, ToSink):
        topic = target.options.get("topic")
        return ([topic], []) if topic else ([], [location_of(target)])
    return [], [query.dataset] if isinstance(target, ToTable | ToLake) else []


def _group(files: PipelineFiles, flow: str) -> str:
    chosen = files.settings.flows.get(flow, FlowSettings()).group
    return chosen or f"{files.name}.{flow.replace(' ', '-')}"
