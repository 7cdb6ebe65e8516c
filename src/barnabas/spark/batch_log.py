"""What was decided for each micro-batch, in small files beside the data: the memory of our own `foreachBatch` writers.

Spark runs a batch again that it has not noted as finished. A writer that has noted its decision here, under the batch's
number, can then finish the same work instead of doing it twice. Files are written aside and renamed into place, so that
an entry is whole or not there. Any file system that Hadoop knows will do.
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
        """What is still noted, in order."""
        return [self.read(number) for number in self._numbers()]

    def decide(self, batch: int, document: Any) -> bool:
        """Note what is to be done, once: False when it, or a later one, was decided already.

        A process that sleeps while others go on may find its number free again, because old entries are removed. It
        looks once more after it has written: then it sees the later ones, and takes its own back.
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
        """-1 when nothing was decided."""
        numbers = self._numbers()
        return numbers[-1] if numbers else -1

    def write(self, batch: int, document: Any) -> None:
        """Note something, over what was noted before."""
        self._folder.write_text(_name(batch), json.dumps(document))
        self._remove(self._numbers()[:-KEPT])

    def _remove(self, numbers: list[int]) -> None:
        for number in numbers:
            self._folder.delete(_name(number))

    def _numbers(self) -> list[int]:
        names = [name.removesuffix(".json") for name in self._folder.names() if name.endswith(".json")]
        return sorted(int(name) for name in names if name.isdigit())


def require_creation_once(folder: HadoopFolder) -> None:
    """A decision is a file that only one can create: PipelineError on an object store that does not see to that."""
    if not folder.creates_once():
        raise PipelineError(
            f"The object store of {folder.url} replaces an object though it was asked to create it only if there is "
            "none: two runs could both believe that a batch is theirs. Use a store with conditional writes "
            "(If-None-Match), or a disk or HDFS for tables and `storage`."
        )


def compute_only(frame: DataFrame) -> None:
    """For a batch whose results are there already: what Spark remembers of it must be written all the same, or it takes
    the batch for a failure, each time."""
    frame.write.format("noop").mode("overwrite").save()


def _name(batch: int) -> str:
    return f"{batch:012d}.json"
