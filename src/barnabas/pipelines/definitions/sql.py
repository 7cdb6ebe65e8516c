"""Definitions in SQL files, taken apart by Spark's own parser: there is no dialect of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.pipelines.flow import Flow, QueryFunction
from pyspark.pipelines.output import MaterializedView, StreamingTable, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.definitions.graph import Graph
from barnabas.spark.errors import PipelineError
from barnabas.spark.jvm import jvm_of


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
                raise PipelineError(f"{path}: {kind} is no definition of a table, a view or a flow.")
            handler(graph, plan, _Statement(text, path, index))

    def _parse(self, text: str, path: Path) -> list[Any]:
        context = jvm_of(self._session).org.apache.spark.sql.pipelines.graph.SqlGraphRegistrationContext
        statements = context.splitSqlFileIntoQueries(self._session._jsparkSession, text, str(path))
        return [statements.apply(index).plan() for index in range(statements.size())]

    def _materialized_view(self, graph: Graph, plan: Any, statement: _Statement) -> None:
        name, place = _name(plan), statement.place
        graph.register_output(
            MaterializedView(name, None, place, {}, _partitioning(plan), None, None, _format(plan))
        )
        graph.register_flow(Flow(name, name, {}, place, self._query(statement, lambda again: again.query())))

    def _filled_table(self, graph: Graph, plan: Any, statement: _Statement) -> None:
        self._empty_table(graph, plan, statement)
        name = _name(plan)
        query = self._query(statement, lambda again: again.query())
        graph.register_flow(Flow(name, name, {}, statement.place, query))

    def _empty_table(self, graph: Graph, plan: Any, statement: _Statement) -> None:
        graph.register_output(
            StreamingTable(
                _name(plan), None, statement.place, {}, _partitioning(plan), None, None, _format(plan)
            )
        )

    def _flow(self, graph: Graph, plan: Any, statement: _Statement) -> None:
        target = plan.flowOperation().table().multipartIdentifier().mkString(".")
        query = self._query(statement, lambda again: again.flowOperation().query())
        graph.register_flow(Flow(_name(plan), target, {}, statement.place, query))

    def _view(self, graph: Graph, plan: Any, statement: _Statement) -> None:
        name = plan.name().table()
        graph.register_output(TemporaryView(name, None, statement.place))
        query = self._query(statement, lambda again: again.plan())
        graph.register_flow(Flow(name, name, {}, statement.place, query))

    def _query(self, statement: _Statement, query_of: Callable[[Any], Any]) -> QueryFunction:
        """Parsed at each call: a plan that could not be resolved once is not resolved later either."""

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
    def place(self) -> SourceCodeLocation:
        return SourceCodeLocation(str(self.path), None)


def _name(plan: Any) -> str:
    return str(plan.name().nameParts().mkString("."))


def _partitioning(plan: Any) -> list[str]:
    columns = []
    transforms = plan.partitioning()
    for index in range(transforms.size()):
        columns += [reference.describe() for reference in transforms.apply(index).references()]
    return columns


def _format(plan: Any) -> str | None:
    provider = plan.tableSpec().provider()
    return provider.get() if provider.isDefined() else None
