"""The warehouse of a mirrored topic: rows name the records of the source."""

from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from barnabas.services.mirror.settings import MirrorSettings
from barnabas.testing import EmbeddedBroker
from tests.support.mirrors.process import MirrorThread, ends, wait_for
from tests.support.spark.workbench import Workbench, stored_in

pytestmark = pytest.mark.timeout(300)


def test_rows_of_a_mirror_have_the_offsets_of_the_source(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic(partitions=2)
    bench = Workbench("warehouse", tmp_path / "lake", broker.bootstrap_servers, {"warehouse.topics": topic})
    made = bench.generate(200)
    bench.send_aborted(made[:20])  # so that offsets are not just counted
    bench.send(made)
    with EmbeddedBroker() as target:
        with MirrorThread(broker.bootstrap_servers, target.bootstrap_servers, MirrorSettings(topics=topic)):
            wait_for(lambda: ends(broker.bootstrap_servers, topic) == ends(target.bootstrap_servers, topic))
        bench.servers = target.bootstrap_servers
        bench.reload()
        bench.run(spark)
    table = pyarrow.dataset.dataset(
        bench.folder / "warehouse", format="parquet", partitioning="hive"
    ).to_table()
    rows = table.select(["partition", "offset", "key", "value"]).to_pylist()
    stored = stored_in(broker.bootstrap_servers, topic)
    assert sorted(tuple(row.values()) for row in rows) == sorted(
        (record.partition, record.offset, record.key, record.value) for record in stored
    )
