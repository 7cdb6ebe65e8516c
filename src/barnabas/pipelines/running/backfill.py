"""Backfill: one flow reads a range of its topics again, with a separate checkpoint, and adds the rows.

The flow's own checkpoint, other flows and their consumer groups are not touched. The range ends at the latest where the
flow has read to: it reads the rest in its next run. The checkpoint of a backfill is named after its range, so that
a killed one resumes, and one that is complete adds nothing when repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame

from barnabas.common.types import TopicPartition
from barnabas.pipelines.running.broker_checks import StreamTopics, source_of
from barnabas.pipelines.running.plan import DEAD_LETTERS, PipelinePlan, Planned, ToTable
from barnabas.pipelines.running.progress import offsets_reached
from barnabas.spark import HadoopFolder, PipelineError, SourceError, close_link
from barnabas.spark.source import EARLIEST, LATEST, OffsetResolver, OffsetSpec, by_topic, flat

Range = dict[TopicPartition, tuple[int, int]]
FORMAT = "barnabas"
_STATEFUL = (
    "Aggregate",
    "Distinct",
    "Deduplicate",
    "Join",
    "FlatMapGroups",
    "TransformWithState",
    "GlobalLimit",
)
_EXAMPLE = '2026-11-16T07:00:00Z, earliest or {"orders": {"0": 23}}'


@dataclass(frozen=True, slots=True)
class Backfill:
    flow: str
    start: OffsetSpec
    end: OffsetSpec

    @classmethod
    def parse(cls, flow: str, start: str, end: str | None) -> Backfill:
        """Raise PipelineError if `start` or `end` is neither a time nor offsets."""
        return cls(flow, _moment(start), OffsetSpec(word=LATEST) if end is None else _moment(end))

    def queries(self, plan: PipelinePlan) -> list[Planned]:
        """Return the query of the flow and that of its dead letters; PipelineError if it cannot be backfilled."""
        found = [query for query in plan.queries if query.name.removesuffix(DEAD_LETTERS) == self.flow]
        if not found:
            known = ", ".join(query.name for query in plan.streams)
            raise PipelineError(
                f"The backfill names {self.flow}, which is not a flow; the flows are {known}."
            )
        _check(found[0])
        return found

    def range_of(self, query: Planned, reached: Mapping[TopicPartition, int]) -> Range:
        """Resolve the range, up to the offsets that the flow has `reached`."""
        if not reached:
            raise PipelineError(f"{self.flow} has not run yet: its first run reads them.")
        found: Range = {}
        try:
            for source in _sources(query.frame):
                found |= self._of_source(source, reached)
                close_link(**source.settings.client.link)
        except SourceError as error:
            raise PipelineError(f"The range of the backfill of {self.flow} is not valid.", error) from error
        return found

    def _of_source(self, source: StreamTopics, reached: Mapping[TopicPartition, int]) -> Range:
        # A time after the last record is the end of the partition.
        resolver = OffsetResolver(replace(source.settings, latest_when_no_match=True))
        assigned = resolver.assigned()
        known = {tp: reached.get(tp, 0) for tp in assigned.partitions}
        start = resolver.resolve(_completed(self.start, known), assigned, starting=True)
        end = resolver.resolve(_completed(self.end, known), assigned, starting=False)
        return {tp: (first, last) for tp, first in start.items() if (last := min(end[tp], known[tp])) > first}


def range_option(found: Range) -> str:
    """Return the value of the source's internal option."""
    return json.dumps(
        {
            "start": by_topic({tp: first for tp, (first, _) in found.items()}),
            "end": by_topic({tp: last for tp, (_, last) in found.items()}),
        },
        sort_keys=True,
    )


def range_name(found: Range) -> str:
    return hashlib.sha256(range_option(found).encode()).hexdigest()[:12]


def range_text(flow: str, found: Range) -> str:
    """Return a sentence for people."""
    if not found:
        return f"{flow} has read no records of this range: nothing is added."
    count = sum(last - first for first, last in found.values())
    parts = ", ".join(f"{tp} from {first} to {last}" for tp, (first, last) in sorted(found.items()))
    return f"{flow} reads {count:,} offsets again and adds their results: {parts}."


def _completed(offset_spec: OffsetSpec, known: Mapping[TopicPartition, int]) -> OffsetSpec:
    """Offsets of some partitions mean nothing of the others."""
    if offset_spec.offsets is None:
        return offset_spec
    unknown = sorted(set(offset_spec.offsets) - set(known))
    if unknown:
        raise SourceError(f"{', '.join(map(str, unknown))} is not read by the flow, or has not been read yet")
    return OffsetSpec(offsets={tp: offset_spec.offsets.get(tp, offset) for tp, offset in known.items()})


def _moment(text: str) -> OffsetSpec:
    if text.lower() in ("earliest", "latest"):
        return OffsetSpec(word=EARLIEST if text.lower() == "earliest" else LATEST)
    try:
        if text.lstrip().startswith("{"):
            return OffsetSpec(offsets=flat(json.loads(text)))
        at = datetime.fromisoformat(text)
    except (ValueError, TypeError, AttributeError):
        raise PipelineError(f"Not a valid time or offsets: {text!r} (for example {_EXAMPLE}).") from None
    return OffsetSpec(timestamp=int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))


def _check(query: Planned) -> None:
    name = query.name
    if not query.streaming:
        raise PipelineError(
            f"{name} is a materialized view, which is recomputed in every run: it needs no backfill."
        )
    if isinstance(query.target, ToTable):
        raise PipelineError(
            f"{name} writes with Spark's file sink, which only its own checkpoint can add to: recompute it with "
            f"`--full-refresh {name}`."
        )
    kinds = _stateful_nodes(query.frame)
    if kinds:
        raise PipelineError(
            f"{name} has a state ({', '.join(kinds)}), and a range gives only a part of its results: recompute it "
            f"with `--full-refresh {name}`."
        )
    if query.reads or not _sources(query.frame):
        raise PipelineError(
            f'{name} does not only read topics with `format("{FORMAT}")`: recompute it with '
            f"`--full-refresh {name}`."
        )


def _stateful_nodes(frame: DataFrame) -> list[str]:
    """Return the nodes with a state. Spark marks those of a stream; a join with a table has no state."""
    plan = frame._jdf.queryExecution().analyzed().toString()
    nodes = {line.lstrip(" :+-").split(" ")[0] for line in plan.splitlines()}
    found = {node[1:] for node in nodes if node.startswith("~")}
    if len([line for line in plan.splitlines() if "~StreamingRelation" in line]) < 2:
        found.discard("Join")
    return sorted(node for node in found if node.startswith(_STATEFUL))


def _sources(frame: DataFrame) -> list[StreamTopics]:
    """Return the sources of a stream; empty if it has one that is not ours."""
    found: list[StreamTopics] = []
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if not leaf.isStreaming():
            continue
        ours = (
            leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.sourceName().lower() == FORMAT
        )
        source = source_of(FORMAT, dict(leaf.extraOptions())) if ours else None
        if source is None:
            return []
        found.append(source)
    return found


# Lines of an entry before those of its sources: the version and the metadata of the batch.
CHECKPOINT_HEADER = 2


def offsets_noted(checkpoint: HadoopFolder) -> dict[TopicPartition, int]:
    """Return the end of the last complete micro-batch in Spark's checkpoint; empty before the first."""
    done = [int(name) for name in checkpoint.below("commits").names() if name.isdigit()]
    if not done:
        return {}
    entry = checkpoint.below("offsets").read_text(str(max(done))) or ""
    return offsets_reached(
        {"sources": [{"endOffset": line} for line in entry.splitlines()[CHECKPOINT_HEADER:]]}
    )
