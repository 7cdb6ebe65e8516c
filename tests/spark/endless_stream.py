"""A separate Spark that copies a topic to Parquet in small batches until it is stopped.

python -m tests.spark.endless_stream BOOTSTRAP TOPIC FOLDER
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from barnabas.spark.session import session_builder
from tests.support.spark.reading import stream

RECORDS_PER_BATCH = 40


def copying(
    session: SparkSession, bootstrap: str, topic: str, folder: Path, limit: int = RECORDS_PER_BATCH
) -> DataStreamWriter:
    """The same query for the successor."""
    limited = stream(session, bootstrap, topic, maxOffsetsPerTrigger=str(limit))
    return (
        limited.load()
        .select("value")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "table"))
    )


def main() -> None:
    bootstrap, topic, folder = sys.argv[1:]
    session = session_builder("endless stream", master="local[2]").getOrCreate()
    copying(session, bootstrap, topic, Path(folder)).start().awaitTermination()


if __name__ == "__main__":
    main()
