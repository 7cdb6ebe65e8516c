"""Number of CPUs that this process may use: its affinity, and the CPU quota of its control groups."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def usable_cpus(cgroups: Path = CGROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """At least 1. A quota of 1.5 CPUs counts as 2."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([count, *map(math.ceil, _quotas(cgroups, own))]))


def _quotas(cgroups: Path, own: Path) -> Iterator[float]:
    """Quotas in CPUs of the control group of this process and of those above it, for versions 1 and 2."""
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        root = cgroups / controllers if controllers else cgroups
        if controllers and "cpu" not in controllers.split(","):
            continue
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(root):
                break
            quota = _quota(folder)
            if quota is not None:
                yield quota


def _quota(folder: Path) -> float | None:
    text = (
        _read(folder / "cpu.max")
        or f"{_read(folder / 'cpu.cfs_quota_us')} {_read(folder / 'cpu.cfs_period_us')}"
    )
    try:
        quota, period = map(int, text.split())
    except ValueError:
        return None  # no quota, or no such file
    return quota / period if quota > 0 and period > 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
