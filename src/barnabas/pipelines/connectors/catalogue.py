"""Every source and every sink, by the word that NAME.yml has for it."""

from __future__ import annotations

from barnabas.pipelines.connectors.ends import Sink, Source
from barnabas.pipelines.connectors.sinks.jdbc import JdbcSink
from barnabas.pipelines.connectors.sinks.opensearch.sink import OpenSearchSink
from barnabas.pipelines.connectors.sinks.redis.sink import RedisSink
from barnabas.pipelines.connectors.sinks.tables import DeltaSink, IcebergSink, ParquetSink
from barnabas.pipelines.connectors.sinks.topic import TopicSink
from barnabas.pipelines.connectors.sources.files import FilesSource
from barnabas.pipelines.connectors.sources.http.source import HttpSource
from barnabas.pipelines.connectors.sources.jdbc import JdbcSource
from barnabas.pipelines.connectors.sources.postgres.source import PostgresSource
from barnabas.pipelines.connectors.sources.topic import TopicSource

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
