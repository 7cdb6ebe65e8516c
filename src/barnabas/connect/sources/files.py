"""`from: {files: {path: "s3a://inbox/orders/", format: csv, schema: "id BIGINT, amount DOUBLE"}}`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from barnabas.connect.endpoints import ERROR, ConnectorContext, ConnectorEndpoint, url_of
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["json", "csv", "text", "parquet", "orc"]
CORRUPT = "_corrupt_record"
TYPED = ("parquet", "orc")


class FileStreamSource(ConnectorEndpoint, frozen=True):
    """Complete files that appear in a folder, each read once by Spark's file source. `options` are those of Spark's
    reader of the format. The column `_file` is the path of the row's file."""

    path: str
    format: Format = "json"
    schema: str | None = None
    max_files: int = 100
    """Maximum per micro-batch."""
    clean: Literal["off", "delete"] = "off"
    """Delete a file after its rows are written."""
    options: dict[str, str] = msgspec.field(default_factory=dict)

    def location(self) -> str:
        return f"{self.format} files {self.path}"

    def read(self, session: SparkSession, context: ConnectorContext) -> DataFrame:
        from pyspark.sql import functions as F

        reader = session.readStream.format(self.format).options(**self.options)
        reader = reader.option("maxFilesPerTrigger", self.max_files).option("cleanSource", self.clean)
        rows = reader.schema(self._columns(session, context)).load(url_of(self.path, context.folder))
        rows = rows.withColumn("_file", F.col("_metadata.file_path"))
        if CORRUPT not in rows.columns:
            return rows
        wrong = F.when(
            F.col(CORRUPT).isNotNull(), F.lit(f"the line is not valid {self.format} for the schema")
        )
        return rows.withColumn(ERROR, wrong)

    def _columns(self, session: SparkSession, context: ConnectorContext) -> str:
        if self.format == "text":
            return "value STRING"
        if self.schema is not None:
            return self.schema if self.format in TYPED else f"{self.schema}, {CORRUPT} STRING"
        if self.format not in TYPED:
            raise PipelineError(
                f"A source `files` with `format: {self.format}` needs `schema` (example: `id BIGINT, name STRING`)."
            )
        from pyspark.errors import PySparkException

        try:
            found = session.read.format(self.format).load(url_of(self.path, context.folder))
            return str(found._jdf.schema().toDDL())
        except PySparkException as error:
            raise PipelineError(
                f"There is no {self.format} file at {self.path} to infer the columns from: set `schema`.",
                error,
            ) from None
