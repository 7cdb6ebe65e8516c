"""Spark's streaming protocol without Spark, with the same files, so that tests can kill it between any two steps."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.connect.sources.postgres.reader import PostgresSettings, PostgresStreamReader
from barnabas.connect.sources.postgres.slot import ReplicationSlot
from barnabas.connect.sources.postgres.tables import Patterns

ROWS_BETWEEN_STEPS = 7


def settings(url: str, tables: str = "public.orders,public.lines", **more: Any) -> PostgresSettings:
    known = {"max_changes": 40, "heartbeat": 0.0} | more
    return PostgresSettings(
        url, None, ReplicationSlot("shop", "shop"), Patterns(tuple(tables.split(","))), **known
    )


class Engine:
    """One process that runs a query; `step` gets the name of each completed step."""

    def __init__(
        self, folder: Path, chosen: PostgresSettings, step: Callable[[str], None] = lambda _: None
    ) -> None:
        self._folder, self._step = folder, step
        self._reader = PostgresStreamReader(chosen)

    def run(self) -> None:
        """Until nothing is new."""
        try:
            self._run()
        finally:
            self._reader.stop()

    def _run(self) -> None:
        number, start, end = self._resume()
        while True:
            if end is None:
                end = self._reader.latestOffset(start, ReadAllAvailable())
                self._step("asked for the end")
                if end == start:
                    return
                self._note("offsets", number, end)
                if number:
                    self._reader.commit(start)
                    self._step("committed the batch before")
            self._batch(number, start, end)
            number, start, end = number + 1, end, None

    def _resume(self) -> tuple[int, dict[str, Any], dict[str, Any] | None]:
        planned = sorted(int(path.name) for path in (self._folder / "offsets").glob("*"))
        initial = self._reader.initialOffset()
        if not planned:
            return 0, initial, None
        last = planned[-1]
        if (self._folder / "commits" / str(last)).exists():
            return last + 1, self._noted("offsets", last), None
        return last, self._noted("offsets", last - 1) if last else initial, self._noted("offsets", last)

    def _batch(self, number: int, start: dict[str, Any], end: dict[str, Any]) -> None:
        tasks = self._reader.partitions(start, end)
        self._step("planned the tasks")
        task_reader = pickle.loads(pickle.dumps(self._reader))
        rows = [row for task in tasks for row in self._rows(task_reader, pickle.loads(pickle.dumps(task)))]
        self._step("read all rows")
        if not (self._folder / "sink" / str(number)).exists():
            self._note("sink", number, rows)
        self._note("commits", number, {})

    def _rows(self, reader: PostgresStreamReader, task: Any) -> Iterator[dict[str, Any]]:
        for batch in reader.read(task):
            for at, row in enumerate(batch.to_pylist()):
                if at % ROWS_BETWEEN_STEPS == 0:
                    self._step("read some rows")
                yield {name: value for name, value in row.items() if name not in ("time", "number")}

    def _note(self, kind: str, number: int, value: Any) -> None:
        folder = self._folder / kind
        folder.mkdir(exist_ok=True)
        (self._folder / "half").write_text(json.dumps(value))
        os.rename(self._folder / "half", folder / str(number))
        self._step(f"wrote {kind}")

    def _noted(self, kind: str, number: int) -> Any:
        return json.loads((self._folder / kind / str(number)).read_text())


def delivered(folder: Path) -> list[dict[str, Any]]:
    """Rows in the sink, in order."""
    batches = sorted((folder / "sink").glob("*"), key=lambda path: int(path.name))
    return [row for path in batches for row in json.loads(path.read_text())]


def run_until(folder: Path, chosen: PostgresSettings, last_step: int) -> None:
    """Kills itself at a step; 0 runs to the end."""
    steps = iter(range(1, 1 << 30))

    def step(name: str) -> None:
        if next(steps) == last_step:
            os.kill(os.getpid(), signal.SIGKILL)

    Engine(folder, chosen, step).run()


class Nursery:
    """Processes that run a query, forked from one that has imported everything: each is there at once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, folder: Path, url: str, last_step: int) -> bool:
        """True if it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), url, last_step]) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        assert status in (0, signal.SIGKILL)
        return status != 0

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def _serve() -> None:
    import pandas  # noqa: F401 - Arrow does; here, so that a child need not
    import psycopg.sql  # noqa: F401
    import pyarrow  # noqa: F401

    for line in sys.stdin:
        folder, url, last_step = json.loads(line)
        child = os.fork()
        if child == 0:
            run_until(Path(folder), settings(url), last_step)
            os._exit(0)
        sys.stdout.write(f"{os.waitpid(child, 0)[1]}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
