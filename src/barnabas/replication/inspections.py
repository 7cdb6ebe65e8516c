"""Inspects large batches in a thread, while the event loop serves other requests.

A single thread decompresses one batch at a time, which bounds memory. The scan of its records is Python and would
hold the GIL, so it yields regularly; with numba installed it is compiled and releases the GIL
(`records/walking.py`).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from barnabas.common.safe_logging import safe_logger
from barnabas.log import Inspected, InspectionRequiredError, inspection
from barnabas.metrics import catalogue
from barnabas.records import walking
from barnabas.records.compression import unpack

if TYPE_CHECKING:
    from barnabas.common.threads import ThreadBackground
    from barnabas.metrics import Registry
    from barnabas.network import MemoryPool

log = safe_logger(__name__)

WORK_SECONDS = 0.0005
YIELD_SECONDS = 0.0001
"""Maximum time between two releases of the GIL. The interpreter alone would switch after 5 ms."""


NO_ADDRESS = ""
"""In the memory pool, inspected batches are not counted per client address."""


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
        """Inspect a batch that is too large to inspect on the loop; KafkaError if it is rejected.

        The caller must own the batch. It counts against `queued.max.request.bytes` meanwhile.
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

    async def unpack(self, codec: int, data: memoryview, limit: int) -> tuple[bytes | bytearray, float]:
        """Decompress client data; returns the data and the CPU seconds used, or raises CompressionError."""
        assert self._thread is not None
        return await self._thread.call(lambda: _timed_unpack(codec, data, limit))

    def note_refusal(self, error: str) -> None:
        self._refused.labels(error).value += 1

    def load_if_wanted(self) -> None:
        """Load the compiled scan if a topic validates every record: only then numba is worth its memory."""
        if walking.compiled_is_enabled():
            threading.Thread(target=_load_compiled, name="barnabas-numba", daemon=True).start()


def _inspect(batch: memoryview, unchecked: InspectionRequiredError, now_ms: int) -> Inspected:
    return inspection.inspect(batch, unchecked.header, unchecked.config, now_ms, breathe=GilYield())


def _timed_unpack(codec: int, data: memoryview, limit: int) -> tuple[bytes | bytearray, float]:
    began = time.thread_time()
    return unpack(codec, data, limit), time.thread_time() - began


def _load_compiled() -> None:
    try:
        walking.load_compiled()
    except Exception:  # numba and its cache are optional, whatever the error
        log.warning("the compiled record validation cannot be loaded; using the slower one", exc_info=True)


class GilYield:
    """Releases the GIL from time to time; called between pieces of work."""

    def __init__(self) -> None:
        self._due = time.perf_counter() + WORK_SECONDS

    def __call__(self) -> None:
        if time.perf_counter() > self._due:
            time.sleep(YIELD_SECONDS)
            self._due = time.perf_counter() + WORK_SECONDS
