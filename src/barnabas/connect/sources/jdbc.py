"""`from: {jdbc: {url: "jdbc:postgresql://db/shop", table: orders, incrementing: id, password: "${env:PG}"}}`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from barnabas.common.durations import seconds_of
from barnabas.connect.endpoints import ORDER, TABLE, ConnectorContext, ConnectorEndpoint
from barnabas.connect.secrets import without_password
from barnabas.security.authn import Secret
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class JdbcSource(ConnectorEndpoint, frozen=True):
    """New rows of a table, found by a column that only grows: `incrementing`, a number, or `timestamp`, the time of the
    last change. Deletions are not detected; use `postgres` for them."""

    url: Secret
    table: str
    incrementing: str | None = None
    timestamp: str | None = None
    user: str | None = None
    password: Secret | None = None
    max_rows: int = 100_000
    """Maximum per poll of the table."""
    settle: str = "1 second"
    """Delay between finding a value and reading the rows up to it: transactions do not commit in the order of their
    numbers and times, and rows committed later than this are missed."""
    options: dict[str, str] = msgspec.field(default_factory=dict)
    """Options of the JDBC driver."""

    def location(self) -> str:
        return f"{self.table} of {without_password(self.url.text).split('?')[0]}"

    def read(self, session: SparkSession, context: ConnectorContext) -> DataFrame:
        from pyspark.sql import functions as F

        from barnabas.connect.jdbc.connection import Database
        from barnabas.connect.jdbc.reader import TableFeeder
        from barnabas.connect.jdbc.statements import check_table

        check_table(self.table)
        if (self.incrementing is None) == (self.timestamp is None):
            raise PipelineError(
                "A source `jdbc` needs either `incrementing` or `timestamp`, a column whose values only increase."
            )
        database = Database.of(self.url, self.user, self.password, self.options)
        by = self.incrementing or self.timestamp or ""
        settle = _seconds(self.settle)
        feeder = TableFeeder(session, database, self.table, by, context.storage, self.max_rows, settle)
        rows = feeder.incoming.stream(feeder.schema())
        context.feeders.append(feeder)
        return rows.withColumns({TABLE: F.lit(self.table), ORDER: self._order(feeder.column)})

    def _order(self, by: str) -> Column:
        from pyspark.sql import functions as F

        column = F.col(f"`{by}`")
        return (
            column.cast("bigint")
            if self.incrementing is not None
            else F.unix_micros(column.cast("timestamp"))
        )


def _seconds(text: str) -> float:
    try:
        return seconds_of(text)
    except ValueError as error:
        raise PipelineError(f"`settle`: {error}.") from None
