"""`from: {postgres: {url: "postgresql://db/shop", user: barnabas, password: "${env:PG}", tables: [public.orders]}}`"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from barnabas.common.durations import seconds_of
from barnabas.connect.endpoints import DELETED, ERROR, ORDER, TABLE, ConnectorContext, ConnectorEndpoint
from barnabas.connect.secrets import without_password
from barnabas.connect.sources.postgres.tables import Patterns
from barnabas.security.authn import Secret
from barnabas.spark import PipelineError, SourceError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MAX_NAME = 63  # length of PostgreSQL's identifiers
CORRUPT = "_corrupt_record"
ENVELOPE = ("key", "before", "after", "op", "schema", "table", "lsn", "xid", "seq", "time", "unchanged")


class PostgresSource(ConnectorEndpoint, frozen=True):
    """`rows` has the columns of a single table; `envelope` has one row per change of any table."""

    url: str
    tables: list[str]
    user: str | None = None
    password: Secret | None = None
    slot: str | None = None
    publication: str | None = None
    shape: Literal["rows", "envelope"] | None = None
    """Default: `rows` if `tables` names one table."""
    max_changes: int = 100_000
    """Maximum per micro-batch; transactions are never split."""
    heartbeat: str = "30 seconds"
    """Interval at which the slot advances while the tables do not change."""

    def location(self) -> str:
        return f"tables {', '.join(self.tables)} of {without_password(self.url)}"

    def read(self, session: SparkSession, context: ConnectorContext) -> DataFrame:
        from barnabas.connect.sources.postgres.reader import FORMAT

        options = self._options(context)
        fields = self._fields() if self._shape() == "rows" else ""
        changes = session.readStream.format(FORMAT).options(**options).load()
        return as_rows(changes, fields) if fields else as_envelopes(changes)

    def _options(self, context: ConnectorContext) -> dict[str, str]:
        if not self.tables:
            raise PipelineError(
                "A source `postgres` requires `tables`, a list of names and patterns as `public.*`."
            )
        if self.max_changes < 1:
            raise PipelineError("`max_changes` of a source `postgres` must be greater than 0.")
        made = re.sub(r"[^a-z0-9_]", "_", f"barnabas_{context.name.lower()}")[:MAX_NAME]
        options = {
            "url": self._full_url(),
            "slot": self.slot or made,
            "publication": self.publication or made,
            "tables": ",".join(self.tables),
            "maxChanges": str(self.max_changes),
            "heartbeat": str(seconds_of(self.heartbeat)),
        }
        return options if self.password is None else {**options, "password": self.password.text}

    def _full_url(self) -> str:
        if self.user is None:
            return self.url
        from psycopg.conninfo import make_conninfo

        return make_conninfo(self.url, user=self.user)

    def _shape(self) -> str:
        single = Patterns(tuple(self.tables)).single()
        if self.shape == "rows" and single is None:
            raise PipelineError(
                "The shape `rows` supports one table: set one in `tables`, or `shape: envelope`."
            )
        return self.shape or ("rows" if single is not None else "envelope")

    def _fields(self) -> str:
        """Return the table's columns as DDL."""
        from barnabas.connect.sources.postgres.database import columns_of, connect, types_of
        from barnabas.connect.sources.postgres.values import spark_type

        schema, name = Patterns(tuple(self.tables)).single() or ("", "")
        try:
            with connect(
                self._full_url(), None if self.password is None else self.password.text
            ) as connection:
                types, columns = types_of(connection), columns_of(connection, schema, name)
        except SourceError as error:
            raise PipelineError(f"The columns of {schema}.{name} are not known.", str(error)) from error
        reserved = [column.name for column in columns if column.name.startswith("_")]
        if reserved:
            raise PipelineError(
                f"Column {reserved[0]} of {schema}.{name} begins with an underscore, which is reserved: set "
                "`shape: envelope`."
            )
        return ", ".join(
            f"`{one.name.replace('`', '``')}` {spark_type(types, one.type_id, one.modifier)}"
            for one in columns
        )


def as_envelopes(changes: DataFrame) -> DataFrame:
    """Parse `before` and `after`, so that a JSON sink writes them as objects instead of strings."""
    from pyspark.sql import functions as F

    objects = {name: F.parse_json(name).alias(name) for name in ("before", "after")}
    return changes.select(
        *(objects.get(name, F.col(name)) for name in ENVELOPE), *_about(F.lit(None).cast("string"))
    )


def as_rows(changes: DataFrame, fields: str) -> DataFrame:
    from pyspark.sql import functions as F

    options = {"columnNameOfCorruptRecord": CORRUPT}
    row = F.from_json(F.coalesce("after", "before"), f"{fields}, {CORRUPT} STRING", options)
    about = [*_about(_problem()), (F.col("op") == "d").alias(DELETED)]
    more = [F.col(name).alias(f"_{name}") for name in ("op", "lsn", "seq", "time")]
    return changes.withColumn("_row", row).select("_row.*", *about, *more).drop(CORRUPT)


def _about(problem: Column) -> list[Column]:
    from pyspark.sql import functions as F

    return [
        F.col("key").cast("binary").alias("_key"),
        F.concat_ws(".", "schema", "table").alias(TABLE),
        F.col("number").alias(ORDER),
        problem.alias(ERROR),
    ]


def _problem() -> Column:
    """Error of a change that the shape `rows` cannot represent."""
    from pyspark.sql import functions as F

    truncated = F.lit("the table was truncated, which is not a row change: use `shape: envelope`")
    unchanged = F.concat(
        F.lit("PostgreSQL does not log large values that did not change: "),
        F.concat_ws(", ", "unchanged"),
        F.lit(". ALTER TABLE "),
        F.concat_ws(".", "schema", "table"),
        F.lit(" REPLICA IDENTITY FULL, and then change the row again"),
    )
    unfit = F.concat(F.lit("the row does not match the columns at the start: "), F.col(f"_row.{CORRUPT}"))
    return (
        F.when(F.col("op") == "t", truncated)
        .when(F.col("unchanged").isNotNull(), unchanged)
        .when(F.col(f"_row.{CORRUPT}").isNotNull(), unfit)
    )
