"""Loads the definition files of a pipeline into a graph like Spark's runner: same globs, same globals."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.pipelines.block_session_mutations import block_session_mutations
from pyspark.pipelines.flow import Flow, QueryFunction
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, StreamingTable, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.definitions.files import PipelineFiles
from barnabas.pipelines.definitions.graph import Graph
from barnabas.spark import PipelineError, jvm_of

# -- Definitions in SQL files, parsed by Spark's parser ------------------------------------------------


class SqlDefinitions:
    """Reads SQL files into a graph, for one session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._handlers: dict[str, Callable[[Graph, Any, _Statement], None]] = {
            "CreateMaterializedViewAsSelect": self._materialized_view,
            "CreateStreamingTableAsSelect": self._filled_table,
            "CreateStreamingTable": self._empty_table,
            "CreateFlowCommand": self._flow,
            "CreateViewCommand": self._view,
        }

    def read(self, graph: Graph, text: str, path: Path) -> None:
        for index, plan in enumerate(self._parse(text, path)):
            kind = plan.getClass().getSimpleName()
            handler = self._handlers.get(kind)
            if handler is None:
                raise PipelineError(f"{path}: {kind} does not define a table, a view or a flow.")
            handler(graph, plan, _Statement(text, path, index))

    def _parse(self, text: str, path: Path) -> list[Any]:
        context = jvm_of(self._session).org.apache.spark.sql.pipelines.graph.SqlGraphRegistrationContext
        statements = context.splitSqlFileIntoQueries(self._session._jsparkSession, text, str(path))
        return [statements.apply(index).plan() for index in range(statements.size())]

    def _materialized_view(self, graph: Graph, plan: Any, statement: _Statement) -> None:
        name, location = _name(plan), statement.location
        graph.register_output(MaterializedView(**_table_arguments(plan, location)))
        graph.register_flow(
            Flow(name, name, {}, location, self._query(statement, lambda again: again.query()))
        )

    def _filled_table(self, graph: Graph, plan: Any, statement: _Statement) -> None:
        self._empty_table(graph, plan, statement)
        name = _name(plan)
        query = self._query(statement, lambda again: again.query())
        graph.register_flow(Flow(name, name, {}, statement.location, query))

    def _empty_table(self, graph: Graph, plan: Any, statement: _Statement) -> None:
        graph.register_output(StreamingTable(**_table_arguments(plan, statement.location)))

    def _flow(self, graph: Graph, plan: Any, statement: _Statement) -> None:
        target = plan.flowOperation().table().multipartIdentifier().mkString(".")
        query = self._query(statement, lambda again: again.flowOperation().query())
        graph.register_flow(Flow(_name(plan), target, {}, statement.location, query))

    def _view(self, graph: Graph, plan: Any, statement: _Statement) -> None:
        name = plan.name().table()
        graph.register_output(TemporaryView(name, None, statement.location))
        query = self._query(statement, lambda again: again.plan())
        graph.register_flow(Flow(name, name, {}, statement.location, query))

    def _query(self, statement: _Statement, query_of: Callable[[Any], Any]) -> QueryFunction:
        """Return a function that parses the query at each call: a plan that failed to resolve cannot be reused."""

        def analyse() -> DataFrame:
            from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

            plan = query_of(self._parse(statement.text, statement.path)[statement.position])
            dataset = jvm_of(self._session).org.apache.spark.sql.classic.Dataset
            return ClassicDataFrame(dataset.ofRows(self._session._jsparkSession, plan), self._session)

        return analyse


class _Statement(NamedTuple):
    text: str
    path: Path
    position: int

    @property
    def location(self) -> SourceCodeLocation:
        return SourceCodeLocation(str(self.path), None)


def _name(plan: Any) -> str:
    return str(plan.name().nameParts().mkString("."))


def _table_arguments(plan: Any, location: SourceCodeLocation) -> dict[str, Any]:
    """Return the arguments of a table in SQL, as those of the decorators."""
    spec, columns = plan.tableSpec(), plan.columns()
    fields = [columns.apply(index).toV1Column().toDDL() for index in range(columns.size())]
    partitions, clusters = _partitioning(plan)
    return {
        "name": _name(plan),
        "comment": _optional(spec.comment()),
        "source_code_location": location,
        "table_properties": _mapping(spec.properties()),
        "partition_cols": partitions,
        "cluster_by": clusters,
        "schema": ", ".join(fields) or None,
        "format": _optional(spec.provider()),
    }


def _partitioning(plan: Any) -> tuple[list[str], list[str]]:
    """Return the columns of PARTITIONED BY and CLUSTER BY."""
    columns: dict[str, list[str]] = {"identity": [], "cluster_by": []}
    transforms = plan.partitioning()
    for index in range(transforms.size()):
        transform = transforms.apply(index)
        if transform.name() not in columns:
            raise PipelineError(
                f"{_name(plan)} is partitioned by {transform.toString()}, but folders of files are partitioned by "
                "columns: add a column for it."
            )
        columns[transform.name()] += [".".join(each.fieldNames()) for each in transform.references()]
    return columns["identity"], columns["cluster_by"]


def _mapping(found: Any) -> dict[str, str]:
    pairs = found.toSeq()
    return {pairs.apply(index)._1(): pairs.apply(index)._2() for index in range(pairs.size())}


def _optional(found: Any) -> str | None:
    return found.get() if found.isDefined() else None


def load_graph(files: PipelineFiles, session: SparkSession) -> Graph:
    """Load all definitions; PipelineError names the file with the error."""
    graph = Graph(SqlDefinitions(session).read)
    with _in_folder(files.folder), graph_element_registration_context(graph), _as_active(session):
        for path in _definition_files(files):
            _load_file(path, graph, session, files.folder)
    if not graph.outputs:
        raise PipelineError(
            f"{files.folder} defines nothing: its libraries ({', '.join(files.libraries) or 'none'}) match no "
            "file with a definition."
        )
    graph.check()
    return graph


def _definition_files(files: PipelineFiles) -> list[Path]:
    found: set[Path] = set()
    for pattern in files.libraries:
        # Spark's rule: a file by name, or everything below a folder.
        expression = f"{pattern}/*" if pattern.endswith("/**") else pattern
        found.update(path for path in files.folder.glob(expression) if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts)


def _load_file(path: Path, graph: Graph, session: SparkSession, folder: Path) -> None:
    where = path.relative_to(folder)
    try:
        if path.suffix == ".py":
            _run_module(path, session)
        elif path.suffix == ".sql":
            graph.register_sql(path.read_text(), where)
        else:
            raise PipelineError(f"{where}: definitions are .py and .sql files; move this one elsewhere.")
    except PipelineError:
        raise
    except Exception as error:  # any exception: definition files are user code
        raise PipelineError(f"{where} could not be loaded{_line_in(error, path)}.", error) from error


def _run_module(path: Path, session: SparkSession) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = session
    with block_session_mutations():
        spec.loader.exec_module(module)


def _line_in(error: BaseException, path: Path) -> str:
    """Return `, line 12`: the last line of the user's file in the traceback."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f", line {line}" if line is not None else ""


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Allow definitions to import modules of their folder and to open files by relative paths."""
    before = Path.cwd()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        os.chdir(before)


@contextlib.contextmanager
def _as_active(session: SparkSession) -> Iterator[None]:
    """Make `SparkSession.active()` return this session: several pipelines share one Spark, with a session each."""
    before = SparkSession._activeSession
    java_class = SparkSession._get_j_spark_session_class(session._jvm)
    SparkSession._activeSession = session
    java_class.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        SparkSession._activeSession = before
        if before is not None:
            java_class.setActiveSession(before._jsparkSession)
