"""Compiles a declaration to one flow of the runner, with its checkpoint, consumer group, lag and metrics.

Each micro-batch is split: valid rows go to the sink, rows with `_error` to the dead-letter topic. Both writes are
exactly once, keyed by query id and batch number. If the sink is a topic, one write carries both. Otherwise the sink is
written first and the dead letters second: a repeated batch skips the sink and writes only the dead letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.connect.declaration import Connector
from barnabas.connect.endpoints import ERROR, ConnectorContext, SinkWriter
from barnabas.connect.sinks.topic import RecordWriter, TopicSink, TopicWriter
from barnabas.pipelines.definitions import FlowSettings, PipelineFiles, PipelineSettings, RequiredTopic
from barnabas.pipelines.lake import query_id
from barnabas.pipelines.quality import letters_of
from barnabas.pipelines.running import OBSERVATION, PipelinePlan, Planned, ToBatches
from barnabas.spark import PipelineError

FLOW = "rows"
STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"  # a stuck query must not block the other connectors
REJECTED = "rejected"
"""Name of the observed metric that counts rows with an error."""


def files_of(connector: Connector) -> PipelineFiles:
    """Return the connector as the pipeline files that the runner expects."""
    topics = [RequiredTopic(name=connector.errors.topic)] if connector.errors is not None else []
    if isinstance(connector.sink, TopicSink) and connector.sink.topic is not None:
        topics.append(RequiredTopic(name=connector.sink.topic, partitions=connector.sink.partitions))
    settings = PipelineSettings(
        trigger=connector.trigger,
        flows={FLOW: FlowSettings(group=f"connect-{connector.name}")},
        topics=topics,
    )
    configuration = {STOP_TIMEOUT: "30s", **connector.configuration}
    return PipelineFiles(
        connector.path.parent, connector.name, connector.storage, configuration, (), settings
    )


@dataclass
class ConnectorPlan:
    """The runner's plan of one connector: a single query."""

    connector: Connector
    session: SparkSession
    context: ConnectorContext = field(init=False)
    _opened: list[SinkWriter] = field(default_factory=list)
    _columns: dict[str, str] = field(default_factory=dict)
    _written: ConnectorWriter | None = None

    def __post_init__(self) -> None:
        connector = self.connector
        self.context = ConnectorContext(
            connector.name, connector.path.parent, connector.storage.rstrip("/"), connector.configuration
        )

    def plan(self) -> PipelinePlan:
        rows = self._transformed()
        if not rows.isStreaming:
            raise PipelineError(f"{self.connector.source.location()} is not a stream.")
        if self.connector.errors is None:
            rows = rows.filter(F.when(F.col(ERROR).isNotNull(), _stop(self.connector.name)).otherwise(True))
        else:
            counted = F.count(F.when(F.col(ERROR).isNotNull(), 1)).alias(REJECTED)
            rows = rows.observe(OBSERVATION + FLOW, F.count(F.lit(1)).alias("rows"), counted)
        target = ToBatches(self.connector.sink.location(), self._writer)
        self._columns = dict(rows.dtypes)
        return PipelinePlan([Planned(FLOW, rows, target, lambda: rows)])

    def undo(self) -> None:
        """No-op: planning a connector creates nothing."""

    def close(self) -> None:
        """Close the sinks after the query has ended."""
        for sink in self._opened:
            sink.close()
        self._opened.clear()

    def _transformed(self) -> DataFrame:
        rows = self.connector.source.read(self.session, self.context)
        if ERROR not in rows.columns:
            rows = rows.withColumn(ERROR, F.lit(None).cast("string"))
        for transform in self.connector.transforms:
            try:
                rows = transform.apply(rows)
                rows.schema  # noqa: B018 - forces analysis, which reports the error
            except AnalysisException as error:
                raise PipelineError(f"cannot apply `{transform.kind}` to the rows.", error) from None
        return rows

    def _writer(self, checkpoint: str) -> ConnectorWriter:
        kept = {name: kind for name, kind in self._columns.items() if name != ERROR}
        sink = self.connector.sink.open(self.session, self.context, kept)
        self._opened.append(sink)
        self._written = ConnectorWriter(self.connector, self.session, self.context, sink, kept, checkpoint)
        return self._written

    @property
    def refused(self) -> int:
        return 0 if self._written is None else self._written.refused


class ConnectorWriter:
    """The `foreachBatch` function of a connector."""

    def __init__(
        self,
        connector: Connector,
        session: SparkSession,
        context: ConnectorContext,
        sink: SinkWriter,
        columns: Mapping[str, str],
        checkpoint: str,
    ) -> None:
        self._connector = connector
        self._session = session
        self._sink = sink
        self._columns = columns
        self._checkpoint = checkpoint
        self._query = ""
        self.refused = 0
        """Rows rejected by the sink since the start."""
        self._letters = RecordWriter(context, f"connect-{connector.name}-errors")

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self._query = self._query or query_id(self._session, self._checkpoint)
        if self._connector.errors is None and isinstance(self._sink, TopicWriter):
            self._sink.write(rows.drop(ERROR), self._query, batch)
            return
        rows.persist()  # otherwise the source is read twice: for the rows and for their errors
        try:
            self._write(rows, batch)
        finally:
            rows.unpersist()

    def _write(self, rows: DataFrame, batch: int) -> None:
        if self._connector.errors is None:
            self._refuse_to_lose(self._sink.write(rows.drop(ERROR), self._query, batch))
        elif isinstance(self._sink, TopicWriter):
            self._write_together(self._sink, rows, batch)
        else:
            self._write_apart(rows, batch)

    def _write_together(self, sink: TopicWriter, rows: DataFrame, batch: int) -> None:
        good = sink.records(rows.filter(F.col(ERROR).isNull()))
        letters = self._letters_of(rows.filter(F.col(ERROR).isNotNull()))
        sink.write_records(sink.with_letters(good, letters), self._query, batch)

    def _write_apart(self, rows: DataFrame, batch: int) -> None:
        refused = self._sink.write(rows.filter(F.col(ERROR).isNull()).drop(ERROR), self._query, batch)
        letters = self._letters_of(rows.filter(F.col(ERROR).isNotNull()))
        if refused is not None:
            letters = letters.unionByName(self._letters_of(refused), allowMissingColumns=True)
        if letters.isEmpty():
            return
        self._letters.write_records(letters, self._query, batch)
        self.refused += 0 if refused is None else refused.count()

    def _letters_of(self, rows: DataFrame) -> DataFrame:
        assert self._connector.errors is not None
        types = {name: kind for name, kind in rows.dtypes if name != ERROR}
        letters = letters_of(self._connector.name, rows, types, F.col(ERROR))
        return letters.withColumn("topic", F.lit(self._connector.errors.topic))

    def _refuse_to_lose(self, refused: DataFrame | None) -> None:
        first = None if refused is None else refused.select(ERROR).first()
        if first is not None:
            raise PipelineError(
                f"{self._connector.sink.location()} rejects rows ({first[0]}), and the connector has no "
                "`errors: {topic: ...}` for them: add it, and the connector continues from here."
            )


def _stop(name: str) -> F.Column:
    concatenated = F.concat(
        F.lit(f"A row of {name} is invalid, and the connector has no `errors: {{topic: ...}}`: "), ERROR
    )
    return F.raise_error(concatenated).cast("boolean")
