"""The machine under test: its description, and its current load."""

import os
import platform
import time
from pathlib import Path

# Above this share of busy cores, other processes dominate the figures.
BUSY_LIMIT = 0.10
_WATCH_SECONDS = 2.0


def busy_share() -> float:
    """Share of non-idle CPU time over all cores during a short sample."""
    before = _cpu_times()
    time.sleep(_WATCH_SECONDS)
    after = _cpu_times()
    total = sum(after) - sum(before)
    idle = (after[3] + after[4]) - (before[3] + before[4])  # idle and iowait
    return 1 - idle / total if total else 0.0


def describe() -> dict[str, str]:
    return {
        "cpu": _first_value("/proc/cpuinfo", "model name"),
        "cores": str(os.cpu_count()),
        "memory": _first_value("/proc/meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _cpu_times() -> list[int]:
    return [int(value) for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]


def _first_value(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "unknown"
