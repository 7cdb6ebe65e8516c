"""Data source `barnabas-postgres`: changes of PostgreSQL tables. Discovered by Spark, as is `pyspark_barnabas`."""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from pyspark.sql.datasource import DataSource
except ModuleNotFoundError as error:
    from barnabas.common.installation import extra_command

    text = f"Spark's data source barnabas-postgres needs {error.name}: {extra_command('connect')}"
    raise ModuleNotFoundError(text, name=error.name) from None

from barnabas.spark.worker_process import leave_quietly

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]

leave_quietly()


class DefaultSource(DataSource):
    """Stream of the connector source `postgres`."""

    @classmethod
    def name(cls) -> str:
        return "barnabas-postgres"

    def schema(self) -> str:
        from barnabas.connect.sources.postgres.reader import SCHEMA

        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from barnabas.connect.sources.postgres.reader import PostgresSettings, PostgresStreamReader

        return PostgresStreamReader(
            PostgresSettings.parse({name.lower(): value for name, value in self.options.items()})
        )
