"""Pipelines on a non-local file system that looks local by name."""

from collections import Counter
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from barnabas.testing import EmbeddedBroker
from tests.support.spark.iceberg import rows_of
from tests.support.spark.jars import requires_iceberg
from tests.support.spark.workbench import Workbench

pytestmark = pytest.mark.timeout(300)


def mounted(session: SparkSession, name: str, folder: Path) -> str:
    """`viewfs`: Hadoop's file system of mounted file systems. Direct access to paths finds nothing there."""
    folder.mkdir()
    session._jsc.hadoopConfiguration().set(f"fs.viewfs.mounttable.{name}.link./lake", f"file://{folder}")
    return f"viewfs://{name}/lake"


@pytest.mark.parametrize("kind", ["parquet", pytest.param("iceberg", marks=requires_iceberg)])
def test_a_pipeline_keeps_its_table_and_its_state_at_any_url_of_hadoop(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, kind: str
) -> None:
    lake = mounted(spark, kind, tmp_path / "mounted")
    settings = {
        "warehouse.topics": broker.create_topic(partitions=2),
        "warehouse.path": f"{lake}/events",
        "warehouse.format": kind,
    }
    bench = Workbench("warehouse", tmp_path / "pipeline", broker.bootstrap_servers, settings)
    spec = bench.folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace(f"storage: file://{bench.folder}", f"storage: {lake}"))
    bench.reload()
    made = bench.generate(400, per_second=0.05)
    for part in range(2):
        bench.send(made[part::2])
        bench.run(spark)
    if kind == "iceberg":
        keys = [row["key"] for row in rows_of(spark, f"{lake}/events")]
    else:
        found = pyarrow.dataset.dataset(
            tmp_path / "mounted" / "events", format="parquet", partitioning="hive"
        )
        keys = found.to_table()["key"].to_pylist()
    assert Counter(keys) == Counter((record.key or "").encode() for record in made)
    assert (tmp_path / "mounted" / "storage" / "barnabas" / "checkpoints" / "events").is_dir()
    assert sorted(path.name for path in bench.folder.iterdir()) == [
        "barnabas.yml",
        "spark-pipeline.yml",
        "transformations",
    ]
