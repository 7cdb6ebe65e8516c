"""The transactional ids that one process writes under: nobody else ever takes them, but to end what is open there.

InitProducerId aborts what is open under an id. Spark may run several attempts of a task at once: one on an executor
that it has given up, one of a stage that it has begun again, a speculative one. If they had an id in common, an attempt
that comes late would abort the transaction of another one, even after that had become a part of a decided batch. So an
id carries the name of the worker process, which runs one task after the other.

Brokers remember ids and their producers for days, so a process uses its ids again: those of earlier batches of the same
start of a query. The tasks of a batch start only after the batch before was carried out.
"""

from __future__ import annotations

import os
import uuid

from barnabas.spark.sink.state import task_id

Place = tuple[str, int, str, int]  # sink, run, start of the query, batch

_by_process: dict[int, OwnNames] = {}


class OwnNames:
    def __init__(self, process: str) -> None:
        self._process = process
        self._made = 0
        self._kept: dict[tuple[str, int, str], dict[str, int]] = {}  # name -> batch, by sink, run and start

    def take(self, sink: str, run: int, start: str, batch: int) -> str:
        kept = self._kept.get((sink, run, start), {})
        for name, last in kept.items():
            if last < batch:
                del kept[name]
                return name
        self._made += 1
        return task_id(sink, run, f"{self._process}.{self._made}")

    def keep(self, name: str, sink: str, run: int, start: str, batch: int) -> None:
        """For later batches. Only when all requests under it were answered: others might still arrive."""
        if start:
            self._kept.setdefault((sink, run, start), {})[name] = batch


def own_names() -> OwnNames:
    """Those of this process: a forked one has others than its parent."""
    pid = os.getpid()
    if pid not in _by_process:
        _by_process[pid] = OwnNames(uuid.uuid4().hex[:12])
    return _by_process[pid]
