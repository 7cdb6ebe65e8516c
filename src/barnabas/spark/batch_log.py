"""Log of decisions per micro-batch, in small files next to the data: the state of our `foreachBatch` writers.

Spark reruns a batch that it has not recorded as finished. A writer that has recorded its decision here, under the batch
id, can then finish the same work instead of repeating it. Files are written under a temporary name and renamed, so that
an entry is complete or absent. Works on any Hadoop file system.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame

from barnabas.spark.errors import PipelineError
from barnabas.spark.hadoop_files import HadoopFolder

KEPT = 20  # entries; Spark repeats at most the last batch


class BatchLog:
    def __init__(self, folder: HadoopFolder) -> None:
        self._folder = folder

    def read(self, batch: int) -> Any | None:
        text = self._folder.read_text(_name(batch))
        return None if text is None else json.loads(text)

    def latest(self) -> tuple[int, Any] | None:
        numbers = self._numbers()
        return (numbers[-1], self.read(numbers[-1])) if numbers else None

    def all(self) -> list[Any]:
        """Remaining entries, in batch order."""
        return [self.read(number) for number in self._numbers()]

    def decide(self, batch: int, document: Any) -> bool:
        """Record a decision once; False if this batch or a later one was decided already.

        A stalled process may find its batch id free again, because old entries are deleted. So it checks again after
        writing: if later entries exist, it deletes its entry.
        """
        if not self._folder.create_text(_name(batch), json.dumps(document)):
            return False
        numbers = self._numbers()
        if numbers[-1] > batch:
            self._folder.delete(_name(batch))
            return False
        self._remove(numbers[:-KEPT])
        return True

    def latest_number(self) -> int:
        """-1 if nothing was decided."""
        numbers = self._numbers()
        return numbers[-1] if numbers else -1

    def write(self, batch: int, document: Any) -> None:
        """Write an entry, replacing an earlier one."""
        self._folder.write_text(_name(batch), json.dumps(document))
        self._remove(self._numbers()[:-KEPT])

    def _remove(self, numbers: list[int]) -> None:
        for number in numbers:
            self._folder.delete(_name(number))

    def _numbers(self) -> list[int]:
        names = [name.removesuffix(".json") for name in self._folder.names() if name.endswith(".json")]
        return sorted(int(name) for name in names if name.isdigit())


def require_creation_once(folder: HadoopFolder) -> None:
    """A decision is a file that only one process can create: PipelineError if the object store does not ensure that."""
    if not folder.creates_once():
        raise PipelineError(
            f"The object store of {folder.url} replaces an object although it was asked to create it only if it does "
            "not exist: two runs could both take the same batch. Use a store with conditional writes "
            "(If-None-Match), or a disk or HDFS for tables and `storage`."
        )


def compute_only(frame: DataFrame) -> None:
    """For a batch that was already written: Spark's state must be written anyway, or Spark treats the batch as failed,
    each time."""
    frame.write.format("noop").mode("overwrite").save()


def _name(batch: int) -> str:
    return f"{batch:012d}.json"
