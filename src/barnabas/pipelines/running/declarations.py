"""Checks definitions against `barnabas.yml`, and the arguments of Spark's decorators: each is honoured or rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.output import MaterializedView, Output, Sink, Table, TemporaryView
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from barnabas.pipelines.definitions.graph import Graph
from barnabas.pipelines.definitions.settings import FlowSettings, Lake, PipelineSettings
from barnabas.spark import PipelineError

CHECKPOINT = "checkpointlocation"
KEPT_FORMAT = "parquet"
"""Format of tables whose batches the runner writes itself: several flows can fill one."""
_NOT_BY_KEY = frozenset(
    {"delivery", "sinkid", "batchof", "batchnumber", "includetimestamp", "includeheaders", "tornbatch"}
)
"""Options of the exactly-once sink, which a flow in `update` mode does not use."""

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
            raise PipelineError(f"`flows` names {name}, which is not a flow; the flows are {known}.")
    for name in settings.lake:
        _check_lake(graph.outputs[name])
    for name in settings.publish:
        if not isinstance(graph.outputs[name], MaterializedView):
            raise PipelineError(
                f"`publish` names {name}, which is not a materialized view; a stream writes to a topic with a sink."
            )


def _check_lake(output: Output) -> None:
    """Reject lakes that are not streaming tables: files of a lake are only appended."""
    if isinstance(output, MaterializedView):
        raise PipelineError(
            f"The lake {output.name} is a materialized view, which is recomputed each time; a lake requires a table "
            f"that a stream fills: make {output.name} a streaming table, or remove it from `lake`."
        )
    if not isinstance(output, Table):
        raise PipelineError(
            f"The lake {output.name} is not a table; make {output.name} a streaming table, or remove it from `lake`."
        )
    if output.format not in (None, KEPT_FORMAT):
        raise PipelineError(
            f"The definition of {output.name} has the format {output.format}, but `lake` makes it a table of Parquet "
            "files: remove one of the two."
        )


# -- Arguments of decorators ---------------------------------------------------------------------------


def check_arguments(graph: Graph, settings: PipelineSettings, session: SparkSession) -> None:
    """Raise PipelineError for an argument that the runner cannot honour."""
    for output in graph.outputs.values():
        flows = graph.flows_into(output.name)
        if isinstance(output, Table):
            _check_table(output)
        if isinstance(output, MaterializedView | TemporaryView) and len(flows) > 1:
            raise PipelineError(
                f"{output.name} is filled by {len(flows)} flows ({_names(flows)}), which would replace each other's "
                "rows: use one flow with `union`, or a streaming table."
            )
        for flow in flows:
            _check_conf(flow, output, session)
            if isinstance(output, Sink):
                _check_sink(output, settings.flows.get(flow.name, FlowSettings()))


def _check_table(output: Table) -> None:
    if output.cluster_by:
        raise PipelineError(
            f"{output.name} is clustered by {', '.join(output.cluster_by)} (`cluster_by`), but tables are folders of "
            "files without clustering: use `partition_cols`."
        )
    required = [field.name for field in declared_fields(output) if not field.nullable]
    if required:
        raise PipelineError(
            f"The schema of {output.name} has NOT NULL columns ({', '.join(required)}), which files do not enforce: "
            "use a quality rule with `action: fail` or `drop`."
        )


def _check_conf(flow: Flow, output: Output, session: SparkSession) -> None:
    if flow.spark_conf and isinstance(output, TemporaryView):
        raise PipelineError(
            f"The temporary view {output.name} has `spark_conf`, but it runs as part of the flows that read it: set "
            "it on those."
        )
    for name in flow.spark_conf:
        if name.startswith("spark.") and not session.conf.isModifiable(name):
            raise PipelineError(
                f"`spark_conf` of {flow.name} sets {name}, which is fixed when Spark starts: set it in the "
                "`configuration` of spark-pipeline.yml."
            )


def _check_sink(output: Sink, flow: FlowSettings) -> None:
    names = {name.lower(): name for name in output.options}
    if CHECKPOINT in names:
        raise PipelineError(
            f"The sink {output.name} sets {names[CHECKPOINT]}, but checkpoints are in the `storage` of the pipeline: "
            "remove the option."
        )
    unused = sorted(names[name] for name in names.keys() & _NOT_BY_KEY)
    if flow.mode == "update" and unused:
        raise PipelineError(
            f"The sink {output.name} sets {', '.join(unused)}, which a flow in `update` mode does not use: it writes "
            "rows by key. Remove the option, or use `mode: append`."
        )


def check_formats(output: Table, flows: Sequence[Flow], *, has_sink_files: bool) -> None:
    """Spark's file sink numbers the batches of a folder: a second flow would lose its batches there."""
    if len(flows) < 2:
        return
    if output.format not in (None, KEPT_FORMAT):
        raise PipelineError(
            f"{output.name} is filled by {len(flows)} flows ({_names(flows)}), which needs the format parquet, not "
            f"{output.format}."
        )
    if has_sink_files:
        raise PipelineError(
            f"{output.name} was written by Spark's file sink for one flow, and now has {len(flows)} "
            f"({_names(flows)}): recompute it with `--full-refresh {output.name}`."
        )


def _names(flows: Sequence[Flow]) -> str:
    return ", ".join(flow.name for flow in flows)


# -- Columns -------------------------------------------------------------------------------------------


def declared_fields(output: Output) -> list[StructField]:
    """Return the columns of the argument `schema`; empty without one."""
    schema = output.schema if isinstance(output, Table) else None
    if schema is None:
        return []
    if isinstance(schema, StructType):
        return list(schema.fields)
    try:
        return list(cast("StructType", StructType.fromDDL(schema)).fields)
    except Exception as error:  # a Java exception of Spark's parser
        raise PipelineError(f"The schema of {output.name} is not valid: {schema!r}.", error) from None


def fit_schema(output: Output, flow: str, frame: DataFrame) -> DataFrame:
    """Return the rows with the declared columns; columns that the flow does not have are NULL."""
    declared = declared_fields(output)
    if not declared:
        return frame
    found = {field.name: field.dataType for field in frame.schema.fields}
    wanted = {field.name: field.dataType for field in declared}
    extra = [name for name in found if name not in wanted]
    if extra:
        raise PipelineError(
            f"{flow} has columns that the schema of {output.name} lacks ({', '.join(extra)}): add them to the schema, "
            "or select without them."
        )
    other = [name for name in found if found[name].simpleString() != wanted[name].simpleString()]
    if other:
        said = ", ".join(
            f"{name} is {found[name].simpleString()}, not {wanted[name].simpleString()}" for name in other
        )
        raise PipelineError(f"{flow} does not fit the schema of {output.name} ({said}): cast the columns.")
    return frame.select(*(_column(name, wanted[name], name in found) for name in wanted))


def _column(name: str, kind: object, exists: bool) -> F.Column:
    return F.col(f"`{name}`") if exists else F.lit(None).cast(kind).alias(name)  # type: ignore[arg-type]


def table_schema(output: Table, frames: Mapping[str, DataFrame]) -> StructType:
    """Return the columns of a table: those declared, or the columns of all flows; PipelineError if types conflict."""
    fields: dict[str, StructField] = {field.name: field for field in declared_fields(output)}
    owners: dict[str, str] = {}
    for flow, frame in frames.items():
        for field in frame.schema.fields:
            known = fields.setdefault(field.name, field)
            if known.dataType.simpleString() != field.dataType.simpleString():
                raise PipelineError(
                    f"{owners[field.name]} and {flow} fill {output.name} with different types of {field.name} "
                    f"({known.dataType.simpleString()} and {field.dataType.simpleString()}): cast one of them."
                )
            owners.setdefault(field.name, flow)
        missing = [name for name in output.partition_cols or () if name not in frame.columns]
        if missing:
            raise PipelineError(
                f"{output.name} is partitioned by {', '.join(missing)}, which {flow} does not have; it has "
                f"{', '.join(frame.columns)}."
            )
    return StructType(list(fields.values()))


def with_properties(lake: Lake, output: Table) -> Lake:
    """Return the lake with comment and properties of its definition; files without a catalog have neither."""
    if lake.format != "iceberg":
        return lake
    comment = {"comment": output.comment} if output.comment else {}
    return msgspec.structs.replace(lake, properties={**comment, **output.table_properties, **lake.properties})


def quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


def table_clauses(output: Table) -> str:
    """Return partitioning, comment and properties of a table for CREATE TABLE."""
    by, properties = output.partition_cols or (), output.table_properties
    clauses = [f" PARTITIONED BY ({', '.join(map(quoted, by))})"] if by else []
    clauses += [f" COMMENT {_literal(output.comment)}"] if output.comment else []
    if properties:
        pairs = ", ".join(f"{_literal(name)} = {_literal(value)}" for name, value in properties.items())
        clauses.append(f" TBLPROPERTIES ({pairs})")
    return "".join(clauses)


def _literal(text: object) -> str:
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"
