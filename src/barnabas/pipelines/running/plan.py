"""Plans queries from definitions: dependencies, order and targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from pyspark.errors import AnalysisException, PySparkException
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, Table, TemporaryView
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from barnabas.pipelines.alarms.watching import WatchedGroup, grouped, windowed
from barnabas.pipelines.connection import connection_options
from barnabas.pipelines.definitions.files import PipelineFiles
from barnabas.pipelines.definitions.graph import Graph
from barnabas.pipelines.definitions.settings import AlarmRule, FlowSettings, Lake, Mode
from barnabas.pipelines.lake.iceberg_table import iceberg_of
from barnabas.pipelines.lake.writer import check_schema
from barnabas.pipelines.quality.columns import apply_rules, dead_letters
from barnabas.pipelines.running.declarations import (
    KEPT_FORMAT,
    check_arguments,
    check_formats,
    check_names,
    fit_schema,
    quoted,
    table_clauses,
    table_schema,
    with_properties,
)
from barnabas.pipelines.running.sessions import configured
from barnabas.pipelines.training import PLANNING
from barnabas.spark import HadoopFolder, PipelineError, jvm_of

MISSING_TABLE = "TABLE_OR_VIEW_NOT_FOUND"
DEAD_LETTERS = ".dead_letters"
RESET_ALLOWED = "pipelines.reset.allowed"  # Spark's property
SINK_FILES = "_spark_metadata"
"""Folder of Spark's file sink: the list of the files that belong to a table."""


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
    conf: Mapping[str, str] = field(default_factory=dict)
    """`spark_conf` of the flow."""
    dataset: str = ""
    reads: tuple[str, ...] = ()
    """Tables of the pipeline."""

    @property
    def streaming(self) -> bool:
        return bool(self.frame.isStreaming)


@dataclass(slots=True)
class PipelinePlan:
    """All queries of a pipeline, in dependency order."""

    queries: list[Planned] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    protected: list[str] = field(default_factory=list)
    """Tables that must not be computed again."""

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

    def __init__(
        self,
        files: PipelineFiles,
        graph: Graph,
        session: SparkSession,
        fresh: frozenset[str] = frozenset(),
        *,
        is_trial: bool = False,
    ) -> None:
        """`fresh` names tables and flows whose files are deleted before the run. A trial does not replace tables of the
        catalog."""
        self._fresh = fresh
        self._files = files
        self._graph = graph
        self._session = session
        self._database = "pipeline_" + re.sub(r"\W", "_", files.name).lower() + ("_trial" if is_trial else "")
        self._frames: dict[str, DataFrame] = {}
        self._table_levels: dict[str, int] = {}
        self._in_progress: list[str] = []
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
        check_arguments(self._graph, self._files.settings, self._session)
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
                self._session.sql(f"DROP TABLE IF EXISTS {quoted(name)}")  # its files stay

    def _provide(self, name: str) -> None:
        """Make a dataset readable by name, after its dependencies."""
        if name in self._frames:
            return
        if name in self._in_progress:
            raise PipelineError(
                f"{' reads '.join([*self._in_progress, name])}: a dataset cannot be made from itself."
            )
        self._in_progress.append(name)
        output = self._graph.outputs[name]
        frames = {
            flow.name: fit_schema(output, flow.name, self._evaluate(flow))
            for flow in self._graph.flows_into(name)
        }
        checked = {flow: self._under_rules(name, flow, frame) for flow, frame in frames.items()}
        self._frames[name] = next(iter(checked.values()))
        self._publish(output, checked)
        self._in_progress.pop()

    def _evaluate(self, flow: Flow) -> DataFrame:
        """Call the author's function; provide a missing dataset first, then call it again."""
        while True:
            try:
                with configured(self._session, flow.spark_conf):
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
        frame = fit_schema(self._graph.outputs[dataset], flow, self._evaluate(self._graph.flows[flow]))
        return apply_rules(dataset, frame, rules).kept

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
                f"A quality rule quarantines rows of {dataset}, which is recomputed each time: the same rows would "
                "be sent again and again; quarantine them in the streaming table that it reads, or use `drop`."
            )
        if checked.rejected is not None and self._files.settings.dead_letters is not None:
            topic = self._files.settings.dead_letters.topic
            broker = {"kafka.bootstrap.servers": self._files.bootstrap}
            options = {**broker, **connection_options(self._files.configuration), "topic": topic}
            letters = dead_letters(dataset, checked.rejected)
            name, conf = f"{flow}{DEAD_LETTERS}", self._graph.flows[flow].spark_conf
            to = ToSink("barnabas", options)
            self._add(Planned(name, letters, to, lambda: letters, conf=conf, dataset=dataset))
        return checked.kept

    def _publish(self, output: Output, frames: dict[str, DataFrame]) -> None:
        if isinstance(output, TemporaryView):
            self._frames[output.name].createOrReplaceTempView(quoted(output.name))
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
            conf = self._graph.flows[flow].spark_conf
            query = Planned(flow, frame, target, again, chosen.mode, chosen.trigger, conf=conf)
            self._add(replace(query, dataset=output.name))
        if isinstance(output, Table):
            self._create_table(output, target, frames)

    def _target_of(self, output: Output) -> Target:
        if isinstance(output, Sink):
            return ToSink(output.format, dict(output.options))
        assert isinstance(output, Table)
        partitions = tuple(output.partition_cols or ())
        lake = self._files.settings.lake.get(output.name)
        if lake is not None:
            return ToLake(with_properties(lake, output), partitions)
        location = f"{storage_of(self._files)}/tables/{output.name}"
        kept = output.format in (None, KEPT_FORMAT) and isinstance(output, StreamingTable)
        flows = self._graph.flows_into(output.name)
        has_sink_files = (
            kept and not self._is_fresh(output) and HadoopFolder(self._session, location).exists(SINK_FILES)
        )
        check_formats(output, flows, has_sink_files=has_sink_files)
        if kept and not has_sink_files:
            return ToLake(Lake(path=location), partitions)
        return ToTable(location, output.format or KEPT_FORMAT, partitions)

    def _is_fresh(self, output: Output) -> bool:
        flows = self._graph.flows_into(output.name)
        return output.name in self._fresh or self._fresh.issuperset(flow.name for flow in flows)

    def _create_table(self, output: Table, target: Target, frames: Mapping[str, DataFrame]) -> None:
        if output.table_properties.get(RESET_ALLOWED, "true").lower() == "false":
            self._plan.protected.append(output.name)
        schema = table_schema(output, frames)
        if isinstance(target, ToLake) and not self._is_fresh(output):
            self._check_lake_schema(output, target, schema)
        if isinstance(target, ToLake) and target.lake.format == "iceberg":
            self._provide_iceberg(output.name, frames, target.lake)
            return
        location = target.lake.path if isinstance(target, ToLake) else getattr(target, "location", "")
        kind = KEPT_FORMAT if isinstance(target, ToLake) else getattr(target, "format", KEPT_FORMAT)
        self._make_folder(location)
        columns = jvm_of(self._session).org.apache.spark.sql.types.DataType.fromJson(schema.json()).toDDL()
        name = quoted(output.name)
        try:
            self._session.sql(
                f"CREATE TABLE {name} ({columns}) USING {kind}{table_clauses(output)} LOCATION '{location}'"
            )
        except PySparkException as error:
            raise PipelineError(f"The table {output.name} cannot be created.", error) from error
        self._table_levels[output.name] = max(map(self._level_of, frames.values()))
        self._plan.tables.append(output.name)

    def _check_lake_schema(self, output: Table, target: ToLake, schema: StructType) -> None:
        without = target.partitions if target.lake.format == "iceberg" else ()
        fields = [field for field in schema.fields if field.name not in without]
        try:
            check_schema(self._session, target.lake, StructType(fields))
        except PipelineError as error:
            hint = f"`--full-refresh {output.name}` recomputes it."
            raise PipelineError(f"{error.sentence} {hint}", error.cause) from None

    def _provide_iceberg(self, name: str, frames: Mapping[str, DataFrame], lake: Lake) -> None:
        """Register the streams that fill the table under its name, because Spark cannot read the table."""
        iceberg_of(self._session)
        frame = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames.values())
        if dict(frame.dtypes).get(str(lake.hours)) != "timestamp":
            raise PipelineError(
                f"The lake {name} requires a column {lake.hours} of type timestamp in its table."
            )
        frame.createOrReplaceTempView(quoted(name))

    def _make_folder(self, location: str) -> None:
        """Create the folder of a table: a stream over a table requires it, even if empty."""
        folder = HadoopFolder(self._session, location)
        self._made += folder.make()

    def _plan_alarms(self, group: WatchedGroup) -> None:
        dataset = group.rules[0].dataset
        source = self._frames[dataset]
        if not source.isStreaming:
            raise PipelineError(
                f"The alarm {group.rules[0].name!r} watches {dataset}, which is recomputed each time; "
                "let it watch the streaming table or view from which that is computed."
            )
        if dataset in self._plan.tables:
            source = self._session.readStream.table(dataset)
        try:
            frame = windowed(group.rules, source)
        except AnalysisException as error:
            raise PipelineError(f"An alarm does not fit the columns of {dataset}.", error) from error
        self._add(Planned(group.name, frame, ToAlarms(group.rules), lambda: frame, dataset=dataset))

    def _add(self, query: Planned) -> None:
        reads = tuple(self._tables_read(query.frame))
        self._plan.queries.append(replace(query, level=self._level_of(query.frame), reads=reads))

    def _level_of(self, frame: DataFrame) -> int:
        return max((self._table_levels[name] + 1 for name in self._tables_read(frame)), default=0)

    def _tables_read(self, frame: DataFrame) -> list[str]:
        plan = frame._jdf.queryExecution().analyzed().toString().replace("`", "")
        return [name for name in self._table_levels if f".{self._database}.{name}\n" in plan]


def storage_of(files: PipelineFiles) -> str:
    """Return our folder in the pipeline's storage, separate from the checkpoints of Spark's runner."""
    return f"{files.storage.rstrip('/')}/barnabas"


def _definition_failed(flow: Flow, error: Exception) -> PipelineError:
    location = flow.source_code_location
    where = f" ({location.filename}{f', line {location.line_number}' if location.line_number else ''})"
    return PipelineError(f"The definition of {flow.name}{where if location.filename else ''} fails.", error)
