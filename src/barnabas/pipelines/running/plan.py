"""Plans queries from definitions: dependencies, order and targets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.output import MaterializedView, Output, Sink, Table, TemporaryView
from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.alarms.watching import WatchedGroup, grouped, windowed
from barnabas.pipelines.connection import connection_options
from barnabas.pipelines.definitions.files import PipelineFiles
from barnabas.pipelines.definitions.graph import Graph
from barnabas.pipelines.definitions.settings import AlarmRule, FlowSettings, Lake, Mode, PipelineSettings
from barnabas.pipelines.lake.iceberg_table import iceberg_of
from barnabas.pipelines.quality.columns import apply_rules, dead_letters
from barnabas.pipelines.training import PLANNING
from barnabas.spark import HadoopFolder, PipelineError

MISSING_TABLE = "TABLE_OR_VIEW_NOT_FOUND"
DEAD_LETTERS = ".dead_letters"


@dataclass(frozen=True, slots=True)
class ToTable:
    """Files below the pipeline's storage; streams and views of the pipeline read them as a table."""

    location: str
    format: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToLake:
    lake: Lake
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToSink:
    format: str
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class ToAlarms:
    rules: tuple[AlarmRule, ...]


BatchFunction = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class ToBatches:
    """A function called with each micro-batch; created at the start of the query from the URL of its checkpoint."""

    location: str
    make: Callable[[str], BatchFunction]


Target = ToTable | ToLake | ToSink | ToAlarms | ToBatches


def location_of(target: Target) -> str:
    """Return the target for display: a folder or a topic. Sink options are omitted, because they contain passwords."""
    if isinstance(target, ToTable):
        return target.location
    if isinstance(target, ToLake):
        return target.lake.path
    if isinstance(target, ToAlarms):
        return "alarms"
    if isinstance(target, ToBatches):
        return target.location
    named = target.options.get("topic") or target.options.get("path")
    return target.format if named is None else f"{target.format}: {named}"


@dataclass(frozen=True, slots=True)
class Planned:
    """One query: a stream, or a view to recompute. `level` is one more than that of the tables it reads."""

    name: str
    frame: DataFrame
    target: Target
    evaluate: Callable[[], DataFrame]
    """Creates the frame again for recomputing a view: a frame over files lists them at creation."""
    mode: Mode = "append"
    trigger: str | None = None
    level: int = 0

    @property
    def streaming(self) -> bool:
        return bool(self.frame.isStreaming)


@dataclass(slots=True)
class PipelinePlan:
    """All queries of a pipeline, in dependency order."""

    queries: list[Planned] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)

    @property
    def streams(self) -> list[Planned]:
        """Streams in start order: dead letters last, because starting is slow and other results matter more."""
        streams = [query for query in self.queries if query.streaming]
        return sorted(streams, key=lambda query: query.name.endswith(DEAD_LETTERS))

    @property
    def views(self) -> list[Planned]:
        return [query for query in self.queries if not query.streaming]

    def levels(self) -> list[list[Planned]]:
        depth = 1 + max((query.level for query in self.queries), default=-1)
        return [[query for query in self.queries if query.level == level] for level in range(depth)]


class PipelinePlanner:
    """Resolves one graph in one session. Tables are registered in a database of the pipeline."""

    def __init__(self, files: PipelineFiles, graph: Graph, session: SparkSession) -> None:
        self._files = files
        self._graph = graph
        self._session = session
        self._database = "pipeline_" + re.sub(r"\W", "_", files.name).lower()
        self._frames: dict[str, DataFrame] = {}
        self._table_levels: dict[str, int] = {}
        self._under_way: list[str] = []
        self._made: list[HadoopFolder] = []
        self._plan = PipelinePlan()

    def undo(self) -> None:
        """Delete the folders created by planning, which are still empty."""
        for folder in reversed(self._made):
            folder.delete()

    def plan(self) -> PipelinePlan:
        self._session.conf.set(PLANNING, "true")
        try:
            return self._planned()
        finally:
            self._session.conf.set(PLANNING, "false")

    def _planned(self) -> PipelinePlan:
        check_names(self._files.settings, self._graph)
        self._prepare_database()
        for name in self._graph.outputs:
            self._provide(name)
        for group in grouped(self._files.settings.alarms):
            self._plan_alarms(group)
        return self._plan

    def _prepare_database(self) -> None:
        # Discover partitions from folders: the catalog does not know those written by streams.
        self._session.conf.set("spark.sql.hive.manageFilesourcePartitions", "false")
        self._session.sql(f"CREATE DATABASE IF NOT EXISTS {self._database}")
        self._session.sql(f"USE {self._database}")
        for name, output in self._graph.outputs.items():
            if isinstance(output, Table):
                self._session.sql(f"DROP TABLE IF EXISTS {_quoted(name)}")  # its files stay

    def _provide(self, name: str) -> None:
        """Make a dataset readable by name, after its dependencies."""
        if name in self._frames:
            return
        if name in self._under_way:
            raise PipelineError(
                f"{' reads '.join([*self._under_way, name])}: a dataset cannot be made from itself."
            )
        self._under_way.append(name)
        output = self._graph.outputs[name]
        frames = {flow.name: self._evaluate(flow) for flow in self._graph.flows_into(name)}
        checked = {flow: self._under_rules(name, flow, frame) for flow, frame in frames.items()}
        self._frames[name] = next(iter(checked.values()))
        self._publish(output, checked)
        self._under_way.pop()

    def _evaluate(self, flow: Flow) -> DataFrame:
        """Call the author's function; provide a missing dataset first, then call it again."""
        while True:
            try:
                return flow.func()
            except AnalysisException as error:
                missing = self._dataset_missing_in(error)
                if missing is None:
                    raise _definition_failed(flow, error) from error
                self._provide(missing)
            except PipelineError:
                raise
            except Exception as error:  # the author's code
                raise _definition_failed(flow, error) from error

    def _evaluate_again(self, dataset: str, flow: str) -> DataFrame:
        rules = [rule for rule in self._files.settings.quality if rule.dataset == dataset]
        return apply_rules(dataset, self._evaluate(self._graph.flows[flow]), rules).kept

    def _dataset_missing_in(self, error: AnalysisException) -> str | None:
        if error.getCondition() != MISSING_TABLE:
            return None
        name = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
        name = name.removeprefix(f"{self._database}.")
        return name if name in self._graph.outputs and name not in self._frames else None

    def _under_rules(self, dataset: str, flow: str, frame: DataFrame) -> DataFrame:
        rules = [rule for rule in self._files.settings.quality if rule.dataset == dataset]
        try:
            checked = apply_rules(dataset, frame, rules)
        except AnalysisException as error:
            raise PipelineError(f"A quality rule of {dataset} does not fit its columns.", error) from error
        if checked.rejected is not None and not frame.isStreaming:
            raise PipelineError(
                f"A quality rule quarantines rows of {dataset}, which is computed again each time: the same rows would "
                "be sent again and again; quarantine them in the streaming table that it reads, or use `drop`."
            )
        if checked.rejected is not None and self._files.settings.dead_letters is not None:
            topic = self._files.settings.dead_letters.topic
            broker = {"kafka.bootstrap.servers": self._files.bootstrap}
            options = {**broker, **connection_options(self._files.configuration), "topic": topic}
            letters = dead_letters(dataset, checked.rejected)
            self._add(Planned(f"{flow}{DEAD_LETTERS}", letters, ToSink("barnabas", options), lambda: letters))
        return checked.kept

    def _publish(self, output: Output, frames: dict[str, DataFrame]) -> None:
        if isinstance(output, TemporaryView):
            self._frames[output.name].createOrReplaceTempView(_quoted(output.name))
            return
        target = self._target_of(output)
        for flow, frame in frames.items():
            if isinstance(output, MaterializedView) == frame.isStreaming:
                wanted = "spark.read" if frame.isStreaming else "spark.readStream"
                raise PipelineError(
                    f"{flow} fills {output.name}, which wants {wanted}, or another decorator."
                )
            chosen = self._files.settings.flows.get(flow, FlowSettings())
            again = partial(self._evaluate_again, output.name, flow)
            self._add(Planned(flow, frame, target, again, chosen.mode, chosen.trigger))
        if isinstance(output, Table):
            self._create_table(output, target)

    def _target_of(self, output: Output) -> Target:
        if isinstance(output, Sink):
            return ToSink(output.format, dict(output.options))
        assert isinstance(output, Table)
        partitions = tuple(output.partition_cols or ())
        lake = self._files.settings.lake.get(output.name)
        if lake is not None:
            return ToLake(lake, partitions)
        return ToTable(
            f"{storage_of(self._files)}/tables/{output.name}", output.format or "parquet", partitions
        )

    def _create_table(self, output: Table, target: Target) -> None:
        frame = self._frames[output.name]
        if isinstance(target, ToLake) and target.lake.format == "iceberg":
            self._provide_iceberg(output.name, frame, target.lake)
            return
        location = target.lake.path if isinstance(target, ToLake) else getattr(target, "location", "")
        kind = "parquet" if isinstance(target, ToLake) else getattr(target, "format", "parquet")
        partitions = getattr(target, "partitions", ())
        by = f" PARTITIONED BY ({', '.join(map(_quoted, partitions))})" if partitions else ""
        self._make_folder(location)
        self._session.sql(
            f"CREATE TABLE {_quoted(output.name)} ({frame._jdf.schema().toDDL()}) USING {kind}{by} "
            f"LOCATION '{location}'"
        )
        self._table_levels[output.name] = self._level_of(frame)
        self._plan.tables.append(output.name)

    def _provide_iceberg(self, name: str, frame: DataFrame, lake: Lake) -> None:
        """Register the stream that fills the table under its name, because Spark cannot read the table."""
        iceberg_of(self._session)
        if dict(frame.dtypes).get(str(lake.hours)) != "timestamp":
            raise PipelineError(
                f"The lake {name} wants a column {lake.hours} of type timestamp in its table."
            )
        frame.createOrReplaceTempView(_quoted(name))

    def _make_folder(self, location: str) -> None:
        """Create the folder of a table: a stream over a table requires it, even if empty."""
        folder = HadoopFolder(self._session, location)
        self._made += folder.make()

    def _plan_alarms(self, group: WatchedGroup) -> None:
        dataset = group.rules[0].dataset
        source = self._frames[dataset]
        if not source.isStreaming:
            raise PipelineError(
                f"The alarm {group.rules[0].name!r} watches {dataset}, which is computed again each time; "
                "let it watch the streaming table or view from which that is computed."
            )
        if dataset in self._plan.tables:
            source = self._session.readStream.table(dataset)
        try:
            frame = windowed(group.rules, source)
        except AnalysisException as error:
            raise PipelineError(f"An alarm does not fit the columns of {dataset}.", error) from error
        self._add(Planned(group.name, frame, ToAlarms(group.rules), lambda: frame))

    def _add(self, query: Planned) -> None:
        level = self._level_of(query.frame)
        self._plan.queries.append(replace(query, level=level))

    def _level_of(self, frame: DataFrame) -> int:
        plan = frame._jdf.queryExecution().analyzed().toString()
        read = [name for name in self._table_levels if f".{self._database}.{name}\n" in plan.replace("`", "")]
        return max((self._table_levels[name] + 1 for name in read), default=0)


def storage_of(files: PipelineFiles) -> str:
    """Return our folder in the pipeline's storage, separate from the checkpoints of Spark's runner."""
    return f"{files.storage.rstrip('/')}/barnabas"


def _definition_failed(flow: Flow, error: Exception) -> PipelineError:
    location = flow.source_code_location
    where = f" ({location.filename}{f', line {location.line_number}' if location.line_number else ''})"
    return PipelineError(f"The definition of {flow.name}{where if location.filename else ''} fails.", error)


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


# -- Names in barnabas.yml -----------------------------------------------------------------------------


def check_names(settings: PipelineSettings, graph: Graph) -> None:
    """Check the names in `barnabas.yml` against the definitions: a rule for a missing dataset would have no effect."""
    named = [("quality rule", rule.dataset) for rule in settings.quality]
    named += [("alarm", rule.dataset) for rule in settings.alarms]
    named += [("lake", name) for name in settings.lake]
    named += [("topic of `publish`", name) for name in settings.publish]
    for what, name in named:
        if name not in graph.outputs:
            known = ", ".join(sorted(graph.outputs))
            raise PipelineError(f"The {what} for {name} has no dataset of that name; there are {known}.")
    for name in settings.flows:
        if name not in graph.flows:
            known = ", ".join(sorted(graph.flows))
            raise PipelineError(f"`flows` names {name}, which is none; there are {known}.")
    for name in settings.lake:
        _check_lake(graph.outputs[name])
    for name in settings.publish:
        if not isinstance(graph.outputs[name], MaterializedView):
            raise PipelineError(
                f"`publish` names {name}, which is no materialized view: a stream writes to a topic by a sink."
            )


def _check_lake(output: Output) -> None:
    """Reject lakes that are not streaming tables: files of a lake are only appended."""
    if isinstance(output, MaterializedView):
        raise PipelineError(
            f"The lake {output.name} is a materialized view, which is computed again each time; a lake wants a table "
            f"that a stream fills: make {output.name} a streaming table, or take it out of `lake`."
        )
    if not isinstance(output, Table):
        raise PipelineError(
            f"The lake {output.name} is no table; make {output.name} one, or take it out of `lake`."
        )
