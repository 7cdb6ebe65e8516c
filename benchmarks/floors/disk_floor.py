"""Latency of grouped fdatasync calls on this disk, without a broker.

One thread appends records at a steady rate, another one syncs: records appended during one fdatasync are covered by
the next. A broker that acknowledges after fsync does the same, so its latencies cannot be lower. On a shared disk their
tail is long.
"""

import os
import threading
import time
from pathlib import Path

from benchmarks.clients.pacing import at_rate
from benchmarks.clients.percentiles import summary

_RECORD = b"x" * 170  # one record of 100 bytes per batch


class _GroupedSyncs:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._changed = threading.Condition()
        self._unsynced: list[float] = []
        self._is_over = False
        self._thread = threading.Thread(target=self._sync)
        self.waits: list[float] = []
        self._thread.start()

    def append(self) -> None:
        begun = time.perf_counter()
        os.write(self._file, _RECORD)
        with self._changed:
            self._unsynced.append(begun)
            self._changed.notify()

    def end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join()
        os.close(self._file)

    def _sync(self) -> None:
        while group := self._next_group():
            os.fdatasync(self._file)
            now = time.perf_counter()
            self.waits += [now - begun for begun in group]

    def _next_group(self) -> list[float]:
        with self._changed:
            self._changed.wait_for(lambda: self._unsynced or self._is_over)
            group, self._unsynced = self._unsynced, []
            return group


def sync_latency(scratch: Path, per_second: int, seconds: float) -> dict[str, float]:
    """Microseconds from the append of a record to the end of the fdatasync that covers it."""
    path = scratch / "disk-floor.log"
    syncs = _GroupedSyncs(path)
    try:
        at_rate(per_second, seconds, syncs.append, lambda: None)
    finally:
        syncs.end()
        path.unlink()
    return summary(syncs.waits)
