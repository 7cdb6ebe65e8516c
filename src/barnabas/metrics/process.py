"""Metrics of the process: version, memory, CPU time and open files."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator

from barnabas.common.version import __version__
from barnabas.metrics import catalogue
from barnabas.metrics.registry import Registry, Sample

_KILOBYTES_IN_MAXRSS = sys.platform != "darwin"  # macOS counts bytes


def declare_process_metrics(registry: Registry, node_id: int, cluster_id: Callable[[], str]) -> None:
    started = time.time()

    def info() -> Iterator[Sample]:
        labels = {
            "version": __version__,
            "node_id": str(node_id),
            "cluster_id": cluster_id(),
        }
        yield Sample("", tuple(labels.items()), 1)

    registry.computed(catalogue.INFO, info)
    registry.read_by(catalogue.START_TIME, lambda: started)
    registry.read_by(catalogue.CPU_SECONDS, time.process_time)
    registry.read_by(catalogue.RESIDENT_MEMORY, resident_memory)
    registry.read_by(catalogue.OPEN_FILES, open_files)
    registry.computed(catalogue.DISK_READ, lambda: _disk_bytes("read_bytes"))
    registry.computed(catalogue.DISK_WRITE, lambda: _disk_bytes("write_bytes"))


def resident_memory() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:  # no /proc: use the peak
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * 1024 if _KILOBYTES_IN_MAXRSS else peak


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


def _disk_bytes(name: str) -> Iterator[Sample]:
    """Read as Kafka's LinuxIoMetricsCollector does; some containers hide the file."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            counts = dict(line.split(": ") for line in file)
    except OSError:
        return
    if name in counts:
        yield Sample("", (), int(counts[name]))
