"""Collects the progress of a pipeline's flows, and commits it to their consumer groups."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from pyspark.sql.streaming.query import StreamingQuery

from barnabas.pipelines.definitions.files import PipelineFiles
from barnabas.pipelines.definitions.settings import FlowSettings
from barnabas.pipelines.running.broker_checks import StreamTopics, topic_sources
from barnabas.pipelines.running.groups import FlowGroups, Reached
from barnabas.pipelines.running.plan import Planned
from barnabas.pipelines.running.progress import FlowProgress, merge_reports, offsets_reached

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
        self._groups.commit(name, reached, last=last)
        if last or time.monotonic() - self._lag_asked >= LAG_SECONDS:
            lag = self._groups.lag(name, reached)
            self.flows[name].lag = self.flows[name].lag if lag is None else lag

    def end_round(self) -> None:
        """Restart the lag interval after all flows were processed."""
        if time.monotonic() - self._lag_asked >= LAG_SECONDS:
            self._lag_asked = time.monotonic()

    def close(self) -> None:
        self._groups.close()


def groups_of(files: PipelineFiles, streams: Sequence[Planned]) -> dict[str, Group]:
    """Return consumer group and sources by flow."""
    return {query.name: (_group(files, query.name), topic_sources(query.frame)) for query in streams}


def _group(files: PipelineFiles, flow: str) -> str:
    chosen = files.settings.flows.get(flow, FlowSettings()).group
    return chosen or f"{files.name}.{flow.replace(' ', '-')}"
