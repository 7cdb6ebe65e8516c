"""Looking into batches that take long to look at: in one thread, while the loop serves others.

One thread, so that one batch at a time is decompressed: the memory for that is bounded, however many are sent. The walk
through its records is Python and would keep the GIL, so it takes a short breath again and again; with numba installed
it is compiled and needs no GIL (`records/walking.py`).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from barnabas.log import inspection
from barnabas.log.inspection import Inspected, InspectionRequiredError
from barnabas.common.safe_logging import safe_logger
from barnabas.metrics import catalogue
from barnabas.records import walking

if TYPE_CHECKING:
    from barnabas.metrics.registry import Registry
    from barnabas.network.memory_pool import MemoryPool
    from barnabas.common.threads import ThreadBackground

log = safe_logger(__name__)

WORK_SECONDS = 0.0005
BREATH_SECONDS = 0.0001
"""Others wait for the GIL for so long at most, and then get it. The interpreter alone would switch after 5 ms."""


NO_ADDRESS = ""
"""In the memory pool a batch that is looked into counts for none of the clients' addresses."""


class Inspections:
    def __init__(self, registry: Registry) -> None:
        self._count = registry.counter(catalogue.INSPECTED_BATCHES).labels()
        self._refused = registry.counter(catalogue.REFUSED_BATCHES)
        self._thread: ThreadBackground | None = None
        self._memory: MemoryPool | None = None

    def start(self, thread: ThreadBackground, memory: MemoryPool) -> None:
        self._thread = thread
        self._memory = memory

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.close(drop_waiting=True)

    async def inspect(self, batch: memoryview, unchecked: InspectionRequiredError, now_ms: int) -> Inspected:
        """Look into a batch that the log would not look into on the loop; KafkaError when it is refused.

        The batch must be the caller's own. It counts against `queued.max.request.bytes` meanwhile.
        """
        assert self._thread is not None
        assert self._memory is not None
        self._count.value += 1
        size = len(batch)
        self._memory.hold(NO_ADDRESS, size, size)
        try:
            return await self._thread.call(lambda: _inspect(batch, unchecked, now_ms))
        finally:
            self._memory.release(NO_ADDRESS, size, size)

    def note_refusal(self, error: str) -> None:
        self._refused.labels(error).value += 1

    def load_if_wanted(self) -> None:
        """A topic has asked for every record to be checked: from now on it is worth the memory of numba."""
        if walking.compiled_is_wanted():
            threading.Thread(target=_load_compiled, name="barnabas-numba", daemon=True).start()


def _inspect(batch: memoryview, unchecked: InspectionRequiredError, now_ms: int) -> Inspected:
    return inspection.inspect(batch, unchecked.header, unchecked.config, now_ms, breathe=Breath())


def _load_compiled() -> None:
    try:
        walking.load_compiled()
    except Exception:  # whatever is wrong with numba or its cache: it can be done without
        log.warning("the compiled check of records cannot be used, the slower one is", exc_info=True)


class Breath:
    """Called between pieces of work: lets other threads have the GIL from time to time."""

    def __init__(self) -> None:
        self._due = time.perf_counter() + WORK_SECONDS

    def __call__(self) -> None:
        if time.perf_counter() > self._due:
            time.sleep(BREATH_SECONDS)
            self._due = time.perf_counter() + WORK_SECONDS
