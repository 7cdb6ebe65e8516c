"""Every source and every sink, by the word that NAME.yml has for it."""

from __future__ import annotations

from barnabas.connect.ends import Sink, Source
from barnabas.connect.sinks.jdbc import JdbcSink
from barnabas.connect.sinks.opensearch.sink import OpenSearchSink
from barnabas.connect.sinks.redis.sink import RedisSink
from barnabas.connect.sinks.tables import DeltaSink, IcebergSink, ParquetSink
from barnabas.connect.sinks.topic import TopicSink
from barnabas.connect.sources.files import FilesSource
from barnabas.connect.sources.http.source import HttpSource
from barnabas.connect.sources.jdbc import JdbcSource
from barnabas.connect.sources.postgres.source import PostgresSource
from barnabas.connect.sources.topic import TopicSource

SOURCES: dict[str, type[Source]] = {
    "topic": TopicSource,
    "files": FilesSource,
    "postgres": PostgresSource,
    "jdbc": JdbcSource,
    "http": HttpSource,
}
SINKS: dict[str, type[Sink]] = {
    "topic": TopicSink,
    "jdbc": JdbcSink,
    "delta": DeltaSink,
    "iceberg": IcebergSink,
    "parquet": ParquetSink,
    "opensearch": OpenSearchSink,
    "redis": RedisSink,
}
