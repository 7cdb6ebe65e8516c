"""A micro-batch as one Redis transaction: all commands and the batch number, or nothing.

    WATCH marker ; HGETALL marker     skip a batch that is already written
    MULTI ; commands ... ; HSET marker query ID batch N ; EXEC

A writer killed before EXEC leaves nothing; a writer that misses the reply finds the number in the next run. If another
run of the connector wrote in between, EXEC does nothing, because the marker is watched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from barnabas.connect.endpoints import DELETED, ERROR, ORDER, ConnectorContext, fields_of
from barnabas.connect.sinks.redis.commands import Command, RedisError, commands
from barnabas.connect.sinks.redis.sink import RedisConnection
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from barnabas.connect.sinks.redis.sink import RedisSink

MARKER = "barnabas:connect:"
AT_ONCE = 1000
"""Commands in flight before their replies are read."""
KEY, FIELDS, GONE = "_redis_key", "_redis_fields", "_redis_deleted"
NO_KEY = "the row has no key: a field of the sink's `key` is null"


class RedisWriter:
    def __init__(self, sink: RedisSink, context: ConnectorContext, columns: Mapping[str, str]) -> None:
        self._sink = sink
        self._shape = sink.shape()
        self._marker = f"{MARKER}{context.name}"
        self._columns = dict(columns)

    def write(self, rows: DataFrame, query: str, batch: int) -> DataFrame | None:
        try:
            server = RedisConnection(self._sink.address())
            try:
                self._check_stream(server)
                if not self._is_written(server, query, batch):
                    self._write(server, rows, query, batch)
            finally:
                server.close()
        except (OSError, EOFError, RedisError) as error:
            raise self._failed(error) from None
        return self._refused(rows)

    def close(self) -> None:
        pass

    def _is_written(self, server: RedisConnection, query: str, batch: int) -> bool:
        server.ask("WATCH", self._marker)
        found = server.ask("HMGET", self._marker, "query", "batch")
        assert isinstance(found, list)
        known, number = found
        return known == query.encode() and isinstance(number, bytes) and int(number) >= batch

    def _write(self, server: RedisConnection, rows: DataFrame, query: str, batch: int) -> None:
        server.ask("MULTI")
        queued = self._commands(rows)
        while some := list(islice(queued, AT_ONCE)):
            server.send(commands(some))
            server.replies(len(some))
        server.ask("HSET", self._marker, "query", query, "batch", batch)
        done = server.ask("EXEC")
        if done is None:
            raise PipelineError(
                "Another run of this connector has written to Redis: run a connector only once at a time."
            )
        assert isinstance(done, list)
        for one in done:
            if isinstance(one, RedisError):
                raise PipelineError("Redis executed a batch but rejected one of its commands.", str(one))

    def _commands(self, rows: DataFrame) -> Iterator[Command]:
        for row in self._prepared(rows).toLocalIterator(prefetchPartitions=True):
            yield from self._shape.commands(row[KEY], self._fields(row), deleted=row[GONE])

    def _fields(self, row: Row) -> Mapping[str, str]:
        return {name: text for name, text in row[FIELDS].items() if text is not None}

    def _prepared(self, rows: DataFrame) -> DataFrame:
        """Add keys and values, and sort rows so that the newest of each key is last."""
        from pyspark.sql import functions as F

        ordered = rows.orderBy(ORDER) if ORDER in self._columns else rows
        deleted_flag = F.coalesce(F.col(DELETED), F.lit(False)) if DELETED in self._columns else F.lit(False)
        chosen = ordered.filter(self._key().isNotNull())
        return chosen.select(self._key().alias(KEY), self._texts().alias(FIELDS), deleted_flag.alias(GONE))

    def _key(self) -> Column:
        from pyspark.sql import functions as F

        if not self._sink.keys:
            return F.lit("")
        parts = [F.col(f"`{name}`").cast("string") for name in self._sink.keys]
        return F.concat(F.lit(self._sink.prefix), *_between(parts, F.lit(":")))

    def _texts(self) -> Column:
        from pyspark.sql import functions as F

        names = fields_of(self._columns)
        if self._shape.kind == "json":
            return F.create_map(F.lit("json"), F.to_json(F.struct(*(F.col(f"`{name}`") for name in names))))
        pairs = [(F.lit(name), self._text(name)) for name in names]
        return F.create_map(*(part for pair in pairs for part in pair))

    def _text(self, name: str) -> Column:
        """Plain values as strings, others as JSON."""
        from pyspark.sql import functions as F

        column, kind = F.col(f"`{name}`"), self._columns[name].lower()
        nested = kind.startswith(("struct", "array", "map"))
        return F.to_json(column) if nested else column.cast("string")

    def _refused(self, rows: DataFrame) -> DataFrame | None:
        from pyspark.sql import functions as F

        if not self._sink.keys:
            return None
        refused = rows.filter(self._key().isNull()).withColumn(ERROR, F.lit(NO_KEY))
        return None if refused.isEmpty() else refused

    def _check_stream(self, server: RedisConnection) -> None:
        if self._shape.kind == "stream" and (kind := server.ask("TYPE", self._shape.stream)) not in (
            b"none",
            b"stream",
        ):
            raise PipelineError(f"The Redis key {self._shape.stream} is {kind!r}, not a stream.")

    def _failed(self, error: Exception) -> PipelineError:
        message = str(error) or type(error).__name__
        if message.startswith(("NOAUTH", "WRONGPASS", "NOPERM")):
            return PipelineError("Redis rejects the user: check `user` and `password`, and its ACL.", message)
        if message.startswith(("MOVED", "CROSSSLOT")):
            return PipelineError(
                "Redis Cluster has no transactions over all keys: use a single server.", message
            )
        return PipelineError(
            f"Cannot write the batch to {self._sink.location()}; it is retried and written exactly once.",
            message,
        )


def _between(parts: list[Column], separator: Column) -> list[Column]:
    return [part for each in parts for part in (separator, each)][1:]
