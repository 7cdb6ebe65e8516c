"""Selection of the flows of a run, and computing some of them again from the beginning.

A full refresh deletes checkpoints and tables. The list is written before the first deletion and removed after the last
one: a run killed in between would otherwise leave a table without rows and a checkpoint that has read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from barnabas.pipelines.running.plan import (
    DEAD_LETTERS,
    PipelinePlan,
    Planned,
    ToAlarms,
    ToLake,
    ToTable,
    location_of,
)
from barnabas.spark import HadoopFolder, PipelineError

NOTE = "full-refresh.json"
OWNER = "pipeline.json"


@dataclass(frozen=True, slots=True)
class FlowSelection:
    """Names of flows or datasets. Without names, all flows run, and none is recomputed."""

    refresh: frozenset[str] = frozenset()
    full: frozenset[str] = frozenset()

    @property
    def is_partial(self) -> bool:
        return bool(self.refresh or self.full)

    def selected(self, plan: PipelinePlan) -> PipelinePlan:
        """Return the plan of the selected flows; PipelineError if a name is unknown or results would be doubled."""
        again = self.again(plan)
        if not self.is_partial:
            return plan
        wanted = {query.name for query in [*_named(plan, self.refresh, "--refresh"), *again]}
        return replace(plan, queries=[query for query in plan.queries if query.name in wanted])

    def again(self, plan: PipelinePlan) -> list[Planned]:
        """Return the queries that are computed from the beginning."""
        found = _named(plan, self.full, "--full-refresh")
        tables = {query.dataset for query in found if query.streaming and _folder_of(query) is not None}
        found += [
            query for query in plan.queries if isinstance(query.target, ToAlarms) and _reads(query, tables)
        ]
        _check_together(plan, found, tables)
        return found

    def described(self, plan: PipelinePlan) -> list[str]:
        """Return a sentence for each query that would be computed again."""
        return [_described(query) for query in self.again(plan)]


def _named(plan: PipelinePlan, names: Iterable[str], option: str) -> list[Planned]:
    found: dict[str, Planned] = {}
    for name in sorted(names):
        queries = [
            query
            for query in plan.queries
            if name in (query.name.removesuffix(DEAD_LETTERS), query.dataset)
            and not isinstance(query.target, ToAlarms)
        ]
        if not queries:
            known = ", ".join(sorted(query.name for query in plan.queries))
            raise PipelineError(
                f"{option} names {name}, which is not a flow or a table; the flows are {known}."
            )
        found |= {query.name: query for query in queries}
    return list(found.values())


def _check_together(plan: PipelinePlan, again: list[Planned], tables: set[str]) -> None:
    names = {query.name for query in again}
    for table in sorted(tables & set(plan.protected)):
        raise PipelineError(
            f"{table} has the property pipelines.reset.allowed=false, so that it is never recomputed: remove the "
            "property first."
        )
    for query in plan.streams:
        if query.name in names:
            continue
        if query.dataset in tables and _folder_of(query) is not None:
            raise PipelineError(
                f"{query.name} fills {query.dataset} too, whose rows are deleted: name the table, "
                f"`--full-refresh {query.dataset}`."
            )
        if _reads(query, tables):
            raise PipelineError(
                f"{query.name} streams from {', '.join(sorted(tables & set(query.reads)))} and would read its rows a "
                f"second time: add `--full-refresh {query.name}`."
            )


def _reads(query: Planned, tables: set[str]) -> bool:
    return not tables.isdisjoint(query.reads)


def _folder_of(query: Planned) -> str | None:
    """Return the folder of the table that a stream fills."""
    if isinstance(query.target, ToTable):
        return query.target.location
    return query.target.lake.path if isinstance(query.target, ToLake) else None


def _described(query: Planned) -> str:
    if not query.streaming:
        return f"{query.name} is recomputed, as in every run."
    folder = _folder_of(query)
    if folder is None:
        return (
            f"{query.name} reads from the beginning and writes its results to {location_of(query.target)} again; "
            "earlier results stay there."
        )
    return (
        f"{query.name} reads from the beginning; its checkpoint and the rows in {folder} are deleted first."
    )


class PipelineStorage:
    """State of a pipeline in its storage: its owner, and unfinished deletions."""

    def __init__(self, session: SparkSession, pipeline: str, storage: str) -> None:
        self._session = session
        self._pipeline = pipeline
        self._folder = HadoopFolder(session, storage)

    def check_owner(self) -> None:
        """Raise PipelineError if another pipeline has its checkpoints here."""
        owner = json.loads(self._folder.read_text(OWNER) or "{}").get("pipeline", self._pipeline)
        if owner != self._pipeline:
            raise PipelineError(
                f"The checkpoints in {self._folder.url} are those of the pipeline {owner}, not of {self._pipeline}: "
                f"set another `storage`, or `name: {owner}` if it is the same pipeline."
            )

    def take(self) -> None:
        """Record the owner, and finish the deletions of a killed run. The caller has the lock of the state."""
        self.check_owner()
        if not self._folder.exists(OWNER):
            self._folder.write_text(OWNER, json.dumps({"pipeline": self._pipeline}))
        self._finish()

    def forget(self, queries: Iterable[Planned], checkpoint_of: Callable[[Planned], str]) -> None:
        """Delete checkpoints and tables of streams."""
        streams = [query for query in queries if query.streaming]
        note = {
            "checkpoints": [checkpoint_of(query) for query in streams],
            "tables": sorted({folder for query in streams if (folder := _folder_of(query)) is not None}),
        }
        self._folder.write_text(NOTE, json.dumps(note))
        self._finish()

    def _finish(self) -> None:
        text = self._folder.read_text(NOTE)
        if text is None:
            return
        note = json.loads(text)
        for url in (*note["checkpoints"], *note["tables"]):
            HadoopFolder(self._session, url).delete()
        for url in note["tables"]:
            HadoopFolder(self._session, url).make()  # streams over the table require the folder
        self._folder.delete(NOTE)
