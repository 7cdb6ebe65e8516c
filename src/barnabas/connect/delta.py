"""A Delta table addressed by URL, written with Delta Kernel in Spark's JVM.

Each release of Delta's Spark connector supports one Spark version, and none supports 4.3 yet. Delta Kernel does not
depend on Spark: one commit adds files written by Spark to the table. The commit carries query id and batch number, and
Delta rejects a batch that it already has, so each batch is in the table once, however many attempts are made.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from barnabas.pipelines.definitions import SchemaEvolution
from barnabas.spark import FoundFile, HadoopFolder, PipelineError, compute_only, jvm_of

WRITER = "Barnabas"
PLAIN_WRITER = 2  # of Delta's protocol; later versions may require more in a commit


class DeltaTable:
    """A Delta table, created with the first batch if missing."""

    def __init__(self, session: SparkSession, url: str, schema_evolution: SchemaEvolution = "add") -> None:
        self._session = session
        self._evolution = schema_evolution
        self._url = url.rstrip("/")
        self._jvm = jvm_of(session)
        self._kernel = kernel_of(session)
        self._engine = self._kernel.defaults.engine.DefaultEngine.create(session._jsc.hadoopConfiguration())
        self._table = self._kernel.Table.forPath(self._engine, self._url)
        self._folder = HadoopFolder(session, self._url)

    def append(self, rows: DataFrame, query: str, batch: int) -> None:
        snapshot = self._snapshot()
        if snapshot is not None and self._has(snapshot, query, batch):
            compute_only(rows)
            return
        while snapshot is not None and (new := self._new_fields(snapshot, rows.schema)):
            self._add_columns(snapshot, new)
            snapshot = self._snapshot()
        folder = f"{_name(query, batch)}{uuid.uuid4().hex[:8]}"
        files = self._write(rows, folder)
        if not self._commit(rows, files, query, batch, is_new=snapshot is None):
            self._folder.delete(folder)
        self._remove_abandoned(_name(query, batch), folder)

    def _snapshot(self) -> Any | None:
        try:
            return self._table.getLatestSnapshot(self._engine)
        except Py4JJavaError as error:
            if _kind(error) == "TableNotFoundException":
                return None
            raise

    def _has(self, snapshot: Any, query: str, batch: int) -> bool:
        last = snapshot.getLatestTransactionVersion(self._engine, query)
        return bool(last.isPresent()) and int(last.get()) >= batch

    def check(self, schema: StructType) -> None:
        """PipelineError if rows do not fit the existing table. Writes nothing."""
        snapshot = self._snapshot()
        if snapshot is not None and self._new_fields(snapshot, schema):
            self._require_plain(snapshot)

    def _new_fields(self, snapshot: Any, schema: StructType) -> list[dict[str, Any]]:
        """Fields without a column; PipelineError for other types. Delta does not validate files written by Spark."""
        there = {field["name"]: field["type"] for field in _fields(snapshot.getSchema().toJson())}
        new = []
        for field in _fields(schema.json()):
            name, kind = field["name"], field["type"]
            if name not in there and self._evolution == "add":
                new.append({"name": name, "type": kind, "nullable": True, "metadata": {}})
            elif there.get(name) != kind:
                has = there.get(name, "no such column")
                raise PipelineError(
                    f"The rows do not match the Delta table at {self._url}: {name} is {kind} in the rows and {has} in "
                    "the table. Cast or drop the field, or change the table."
                )
        return new

    def _require_plain(self, snapshot: Any) -> None:
        if int(snapshot.getProtocol().getMinWriterVersion()) > PLAIN_WRITER:
            raise PipelineError(
                f"The Delta table at {self._url} has table features with which Barnabas cannot add columns: add them "
                "with Delta, or drop the new fields."
            )

    def _add_columns(self, snapshot: Any, new: list[dict[str, Any]]) -> None:
        """Commit a version with more columns. Delta Kernel does that only for tables with column mapping. If another
        writer commits this version first, nothing changes."""
        self._require_plain(snapshot)
        found = snapshot.getMetadata()
        schema = json.loads(found.getSchemaString())
        schema["fields"] += new
        metadata: dict[str, Any] = {
            "id": found.getId(),
            "format": {"provider": found.getFormat().getProvider(), "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": list(
                self._kernel.internal.util.VectorUtils.toJavaList(found.getPartitionColumns())
            ),
            "configuration": dict(found.getConfiguration()),
        }
        optional = {
            "name": found.getName(),
            "description": found.getDescription(),
            "createdTime": found.getCreatedTime(),
        }
        metadata |= {name: value.get() for name, value in optional.items() if value.isPresent()}
        info = {"timestamp": int(time.time() * 1000), "operation": "ADD COLUMNS", "engineInfo": WRITER}
        lines = [json.dumps(each) for each in ({"commitInfo": info}, {"metaData": metadata})]
        self._folder.below("_delta_log").create_text(
            f"{int(snapshot.getVersion()) + 1:020}.json", "\n".join(lines)
        )

    def _write(self, rows: DataFrame, folder: str) -> list[FoundFile]:
        # Spark's default, 12-byte INT96, is not Delta's timestamp type.
        rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        rows.write.parquet(self._folder.path_of(folder))
        return self._folder.below(folder).written_files_by_url()

    def _commit(
        self, rows: DataFrame, files: list[FoundFile], query: str, batch: int, *, is_new: bool
    ) -> bool:
        """Return False if the batch was committed by another attempt in the meantime."""
        kernel, engine = self._kernel, self._engine
        operation = kernel.Operation.CREATE_TABLE if is_new else kernel.Operation.WRITE
        try:
            builder = self._table.createTransactionBuilder(engine, WRITER, operation)
            builder = builder.withTransactionId(engine, query, batch)
            if is_new:
                schema = kernel.internal.types.DataTypeJsonSerDe.deserializeStructType(rows.schema.json())
                builder = builder.withSchema(engine, schema)
            transaction = builder.build(engine)
            done = transaction.commit(engine, self._actions(transaction, files))
        except Py4JJavaError as error:
            if _kind(error) == "ConcurrentTransactionException":
                return False
            raise
        for hook in done.getPostCommitHooks():
            hook.threadSafeInvoke(engine)  # writes a checkpoint from time to time
        return True

    def _actions(self, transaction: Any, files: list[FoundFile]) -> Any:
        java, kernel, engine = self._jvm.java, self._kernel, self._engine
        found = java.util.ArrayList()
        for file in files:
            nothing = java.util.Optional.empty()
            found.add(kernel.utils.DataFileStatus(file.name, file.size, self._modified(file.name), nothing))
        state = transaction.getTransactionState(engine)
        where = kernel.Transaction.getWriteContext(engine, state, java.util.HashMap())
        statuses = kernel.internal.util.Utils.toCloseableIterator(found.iterator())
        added = kernel.Transaction.generateAppendActions(engine, state, statuses, where)
        return kernel.utils.CloseableIterable.inMemoryIterable(added)

    def _modified(self, url: str) -> int:
        path = self._jvm.org.apache.hadoop.fs.Path(url)
        status = path.getFileSystem(self._session._jsc.hadoopConfiguration()).getFileStatus(path)
        return int(status.getModificationTime())

    def _remove_abandoned(self, name: str, kept: str) -> None:
        """Delete the files of other attempts at the batch; the table refers to the folder `kept`."""
        for folder in self._folder.names():
            if folder.startswith(name) and folder != kept:
                self._folder.delete(folder)


def kernel_of(session: SparkSession) -> Any:
    """Return Delta's Java package; PipelineError if the library is not on the class path."""
    jvm = jvm_of(session)
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass("io.delta.kernel.Table")
    except Py4JJavaError:
        raise PipelineError(
            "Delta's library is missing: set `barnabas.jars: delta` in the connector's `configuration`."
        ) from None
    return jvm.io.delta.kernel


def _fields(schema: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(schema)["fields"]
    return found


def _name(query: str, batch: int) -> str:
    return f"batch-{query[:8]}-{batch:08d}-"


def _kind(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getSimpleName())
