"""Tables and state of pipelines on a real HDFS (`make hdfs`)."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.spark.hadoop_files import HadoopFolder
from barnabas.testing import EmbeddedBroker
from tests.pipelines.lake.hdfs import Hdfs
from tests.support.spark.iceberg import rows_of
from tests.support.spark.jars import requires_hdfs, requires_iceberg
from tests.support.spark.workbench import Workbench

pytestmark = [pytest.mark.timeout(600), pytest.mark.extended, requires_hdfs]


@pytest.fixture(scope="module")
def hdfs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        for name, value in running.client_settings().items():
            spark._jsc.hadoopConfiguration().set(name, value)
        yield running


@pytest.mark.parametrize("kind", ["parquet", pytest.param("iceberg", marks=requires_iceberg)])
def test_a_pipeline_keeps_its_table_and_its_state_on_hdfs_and_survives_a_data_node(
    spark: SparkSession, broker: EmbeddedBroker, hdfs: Hdfs, tmp_path: Path, kind: str
) -> None:
    lake = f"{hdfs.url}/{kind}"
    settings = {
        "warehouse.topics": broker.create_topic(partitions=2),
        "warehouse.path": f"{lake}/events",
        "warehouse.format": kind,
    }
    bench = Workbench("warehouse", tmp_path / "pipeline", broker.bootstrap_servers, settings)
    spec = bench.folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace(f"storage: file://{bench.folder}", f"storage: {lake}"))
    bench.reload()
    made = bench.generate(20_000, per_second=5)
    for part in range(2):
        bench.send(made[part::2])
        bench.run(spark)
        if (
            len(hdfs.data_nodes) == 2 and kind == "iceberg"
        ):  # the last of all tests here that writes with both
            hdfs.data_nodes[1].kill()
            hdfs.data_nodes.pop().wait()
    if kind == "iceberg":
        keys = [row["key"] for row in rows_of(spark, f"{lake}/events")]
    else:
        keys = [bytes(row.key) for row in spark.read.parquet(f"{lake}/events").select("key").collect()]
    assert Counter(keys) == Counter((record.key or "").encode() for record in made)


def test_of_many_that_create_a_file_at_once_one_succeeds_and_a_text_is_never_missing(
    spark: SparkSession, hdfs: Hdfs
) -> None:
    folder = HadoopFolder(spark, f"{hdfs.url}/notes")
    with ThreadPoolExecutor(8) as threads:
        for number in range(10):
            name = f"note-{number}"
            won = list(threads.map(lambda text, name=name: folder.create_text(name, text), "abcdefgh"))
            assert won.count(True) == 1
            assert folder.read_text(name) == "abcdefgh"[won.index(True)]
        texts = [str(number) * 100 for number in range(40)]
        folder.write_text("text", texts[0])
        writing = threads.submit(lambda: list(map(partial(folder.write_text, "text"), texts)))
        while not writing.done():
            assert folder.read_text("text") in texts
        writing.result()
