"""The Spark session shared by all tests: it takes seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from examples.demo.pipelines import SHORT_LIVED
from tests.support.spark.jars import connect_jars, connector_jars, iceberg_jars, s3a_jars


def spark_session(warehouse: Path) -> Iterator[SparkSession]:
    """`local[2]`, with Spark's own Kafka connector, Iceberg and S3A on its class path where their jars are there."""
    from barnabas.spark.session import session_builder

    os.environ["BARNABAS_REFERENCES"] = "env,file"  # as the runner of pipelines does before it starts Spark
    jars = [*connector_jars(), *iceberg_jars(), *s3a_jars(), *connect_jars()]
    settings = {
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": ",".join(map(str, jars)),
    }
    session = session_builder(
        "barnabas tests", master="local[2]", settings=settings, java_options=SHORT_LIVED
    ).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
