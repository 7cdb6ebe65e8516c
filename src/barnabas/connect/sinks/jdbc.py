"""`to: {jdbc: {url: "jdbc:postgresql://db/shop", table: orders, keys: [id], mode: upsert, password: "${env:PG}"}}`"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from barnabas.connect.endpoints import ConnectorContext, ConnectorEndpoint, fields_of
from barnabas.connect.secrets import without_password
from barnabas.pipelines.definitions import SchemaEvolution
from barnabas.security.authn import Secret
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.connect.jdbc.writer import JdbcWriter

Mode = Literal["insert", "upsert"]


class JdbcSink(ConnectorEndpoint, frozen=True):
    """`insert` adds each row; `upsert` replaces the row with the same `keys`. With `delete`, deleted rows (tombstones)
    delete theirs from the table; without it they are ignored."""

    is_routed: ClassVar[bool] = False

    url: Secret
    table: str
    user: str | None = None
    password: Secret | None = None
    mode: Mode = "insert"
    keys: tuple[str, ...] = ()
    delete: bool = False
    create: bool = True
    """Create the table if it is missing."""
    schema_evolution: SchemaEvolution = "add"
    """Add the columns that the table lacks (`ALTER TABLE ... ADD`), or refuse to start."""
    options: dict[str, str] = msgspec.field(default_factory=dict)
    """Options of the JDBC driver, such as `sslmode: verify-full`."""

    def location(self) -> str:
        return f"{self.table} of {without_password(self.url.text).split('?')[0]}"

    def open(
        self, session: SparkSession, context: ConnectorContext, columns: Mapping[str, str]
    ) -> JdbcWriter:
        from barnabas.connect.jdbc.statements import check_table
        from barnabas.connect.jdbc.writer import JdbcWriter

        check_table(self.table)
        self._check_keys(columns)
        writer = JdbcWriter(self, session, context.name, columns)
        writer.prepare()
        return writer

    def _check_keys(self, columns: Mapping[str, str]) -> None:
        if not self.keys and (self.mode == "upsert" or self.delete):
            raise PipelineError(
                "A sink `jdbc` that changes or deletes rows requires `keys`, the fields of the primary key."
            )
        missing = [key for key in self.keys if key not in columns]
        if missing:
            raise PipelineError(
                f"The rows have no key field {missing[0]}; their fields are {', '.join(fields_of(columns))}."
            )
