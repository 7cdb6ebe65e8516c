"""Files as sources, tables of files as sinks, read back by independent readers."""

import json
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.connect.endpoints import ConnectorContext
from barnabas.connect.sinks.tables import DeltaSink, TableWriter
from barnabas.pipelines.definitions.settings import SchemaEvolution
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.connect.support import connector, consume, headers_of, produce, run_once
from tests.support.spark.iceberg import rows_of
from tests.support.spark.jars import requires_connect_jars, requires_iceberg

pytestmark = pytest.mark.timeout(300)


def test_files_become_a_table_and_lines_that_do_not_fit_dead_letters(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    inbox, name = tmp_path / "inbox", tmp_path.name
    inbox.mkdir()
    text = f"""
name: {name}
from: {{files: {{path: inbox, format: json, schema: "id BIGINT, day STRING", max_files: 1}}}}
to: {{parquet: {{path: table, partitions: [day]}}}}
errors: {{topic: {name}.dead}}
"""
    declared = connector(tmp_path, text, broker.bootstrap_servers)
    for number, day in enumerate(("mon", "tue", "mon")):
        (inbox / f"{number}.json").write_text(
            json.dumps({"id": number, "day": day}) + "\n" + "no json\n" * (number == 1)
        )
        if number:
            run_once(declared, spark)
    found = pyarrow.dataset.dataset(tmp_path / "table", partitioning="hive").to_table().to_pylist()
    assert sorted((row["id"], row["day"]) for row in found) == [(0, "mon"), (1, "tue"), (2, "mon")]
    [letter] = consume(broker.bootstrap_servers, f"{name}.dead")
    assert letter.value() == b"no json"
    assert headers_of(letter)["errors.reason"] == "the line is not valid json for the schema"


@requires_iceberg
def test_an_iceberg_table_has_the_records_of_a_topic_once(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic()
    text = f"""
name: {tmp_path.name}
from: {{topic: {{topic: {topic}, schema: "id BIGINT, time TIMESTAMP"}}}}
to: {{iceberg: {{path: table, hours: time}}}}
"""
    declared = connector(tmp_path, text, broker.bootstrap_servers)
    for first in (0, 10):
        records = [(n, {"id": n, "time": f"2026-03-01T{n:02}:00:00Z"}) for n in range(first, first + 10)]
        produce(broker.bootstrap_servers, topic, records)
        run_once(declared, spark)
    run_once(declared, spark)
    assert sorted(row["id"] for row in rows_of(spark, (tmp_path / "table").as_uri())) == list(range(20))


def opened(
    spark: SparkSession, tmp_path: Path, evolution: SchemaEvolution = "add", **more: str
) -> TableWriter:
    context = ConnectorContext("c", tmp_path, tmp_path.as_uri())
    sink = DeltaSink(path="delta", schema_evolution=evolution)
    return sink.open(spark, context, {"id": "bigint", "at": "timestamp", **more})


def rows(spark: SparkSession, *numbers: int) -> DataFrame:
    return spark.createDataFrame([(number,) for number in numbers], "id BIGINT").selectExpr(
        "id", "timestamp_seconds(id) at", "'told of' _table"
    )


@requires_connect_jars
def test_a_delta_table_has_each_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="`pip install deltalake` reads Delta tables")
    writer = opened(spark, tmp_path)
    for batch in range(12):  # with a checkpoint of the log
        writer.write(rows(spark, 2 * batch, 2 * batch + 1), "query", batch)
        if batch % 5 == 0:
            opened(spark, tmp_path).write(rows(spark, 2 * batch, 2 * batch + 1), "query", batch)
    opened(spark, tmp_path).write(rows(spark, 100), "a new checkpoint", 0)
    table = deltalake.DeltaTable(str(tmp_path / "delta"))
    found = table.to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in found) == [*range(24), 100]
    assert set(found[0]) == {"id", "at"}
    assert found[0]["at"].timestamp() == found[0]["id"]
    (abandoned := tmp_path / "delta" / "batch-query-00000012-dead").mkdir()
    (abandoned / "part.parquet").write_bytes(b"of an attempt that was killed")
    writer.write(rows(spark, 24), "query", 12)
    assert not abandoned.exists()
    with pytest.raises(PipelineError, match="id is string in the rows and long in the table"):
        writer.write(rows(spark, 1).selectExpr("cast(id as string) id"), "query", 13)


@requires_connect_jars
def test_a_delta_table_gains_the_column_of_a_new_field(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="`pip install deltalake` reads Delta tables")
    opened(spark, tmp_path).write(rows(spark, 1), "query", 0)
    with pytest.raises(PipelineError, match="note is string in the rows and no such column in the table"):
        opened(spark, tmp_path, "fail", note="string")
    with pytest.raises(PipelineError, match="at is string in the rows and timestamp in the table"):
        opened(spark, tmp_path, at="string")
    noted = rows(spark, 2).selectExpr("*", "'new' note", "array(id) seen")
    writer = opened(spark, tmp_path, note="string", seen="array<bigint>")
    assert deltalake.DeltaTable(str(tmp_path / "delta")).version() == 0  # the start has checked only
    writer.write(noted, "query", 1)
    writer.write(rows(spark, 3), "query", 2)  # an older producer
    table = deltalake.DeltaTable(str(tmp_path / "delta"))
    found = {row["id"]: (row["note"], row["seen"]) for row in table.to_pyarrow_table().to_pylist()}
    assert found == {1: (None, None), 2: ("new", [2]), 3: (None, None)}
