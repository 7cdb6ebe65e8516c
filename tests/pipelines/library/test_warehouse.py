"""The template `warehouse`: every record once in Parquet, in the folder of its hour, with file merging."""

from collections import Counter
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.definitions.settings import Compaction
from barnabas.pipelines.lake.writer import BATCH_ATTEMPTS, Compactor, LakeWriter
from barnabas.spark.hadoop_files import HadoopFolder
from barnabas.testing import EmbeddedBroker
from tests.support.spark.workbench import HOUR, Workbench

pytestmark = pytest.mark.timeout(300)  # many flows, one after another, on a busy machine


def rows_in(folder: Path) -> list[tuple[bytes | None, bytes | None, int]]:
    """Key, value and hour of every row, read without Spark."""
    table = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    return list(zip(*(table[name].to_pylist() for name in ("key", "value", "hour")), strict=True))


def test_every_record_is_loaded_once_and_small_files_are_merged(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic("warehouse-orders", partitions=2)
    bench = Workbench("warehouse", tmp_path / "lake", broker.bootstrap_servers, {"warehouse.topics": topic})
    made = bench.generate(2_000, per_second=0.2)  # some hours
    table = tmp_path / "lake" / "warehouse"
    for part in range(2):
        bench.send(made[part::2])
        bench.run(spark)
    expected = sorted((str(record.key).encode(), record.value, record.time // HOUR % 24) for record in made)
    assert sorted(rows_in(table)) == expected
    files = len(list(table.glob("date=*/hour=*/*.parquet")))
    folder = HadoopFolder(spark, f"file://{table}")
    assert Compactor(spark, folder, Compaction(files=2, after="1 hour")).run() > 0
    assert sorted(rows_in(table)) == expected
    assert len(list(table.glob("date=*/hour=*/*.parquet"))) < files


def test_a_batch_that_is_run_again_is_finished_and_not_repeated(spark: SparkSession, tmp_path: Path) -> None:
    """Killed after the decision: half of the files are renamed, the other half wait in the hidden folder."""
    from barnabas.pipelines.definitions.settings import Lake

    table = tmp_path / "table"
    frame = spark.createDataFrame([(str(number), number % 4) for number in range(40)], "key STRING, hour INT")
    writer = LakeWriter(spark, Lake(path=f"file://{table}"), ["hour"], "query-1")
    writer._decide(frame, 0)
    decided = writer._log.read(0)
    assert decided is not None
    name, target = min(decided["moves"].items())
    writer._folder.move(f"{BATCH_ATTEMPTS}/query-1/{decided['attempt']}/{name}", target)
    again = LakeWriter(spark, Lake(path=f"file://{table}"), ["hour"], "query-1")
    again(frame, 0)
    again(frame, 0)
    found = pyarrow.dataset.dataset(table, format="parquet", partitioning="hive").to_table()
    assert Counter(found["key"].to_pylist()) == Counter(str(number) for number in range(40))
    again(frame, 1)
    found = pyarrow.dataset.dataset(table, format="parquet", partitioning="hive").to_table()
    assert found.num_rows == 80
