"""The readers without Spark: driver requests and worker reads in this process."""

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from barnabas.spark.source import make_reader, make_stream_reader, schema_of
from barnabas.spark.source.stream import BatchReader, StreamReader
from tests.support.spark.reading import dots

Rows = list[tuple[int, int, bytes | None]]


def batch_reader(bootstrap: str, **options: str) -> BatchReader:
    settings = {"kafka.bootstrap.servers": bootstrap, **dots(options)}
    reader = make_reader(settings, schema_of(settings))
    assert isinstance(reader, BatchReader)
    return reader


def stream_reader(bootstrap: str, **options: str) -> StreamReader:
    settings = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **dots(options)}
    reader = make_stream_reader(settings, schema_of(settings))
    assert isinstance(reader, StreamReader)
    return reader


def rows_of(reader: BatchReader | StreamReader, tasks: list[Any]) -> Rows:
    """(partition, offset, value), sorted."""
    return sorted(
        (row["partition"], row["offset"], row["value"])
        for task in tasks
        for batch in reader.read(task)
        for row in batch.select(["partition", "offset", "value"]).to_pylist()
    )


class Query:
    """Micro-batches as Spark runs them, from an initial offset or from a checkpoint."""

    def __init__(self, reader: StreamReader, checkpoint: dict[str, Any] | None = None) -> None:
        self.reader = reader
        self.offset = reader.initialOffset() if checkpoint is None else checkpoint
        self.tasks: list[Any] = []

    def next_batch(self, limit: ReadLimit | None = None) -> Rows:
        end = self.reader.latestOffset(self.offset, limit or ReadAllAvailable())
        if end == self.offset:
            return []
        self.tasks = self.reader.partitions(self.offset, end)
        found = rows_of(self.reader, self.tasks)
        self.reader.commit(end)
        self.offset = end
        return found
