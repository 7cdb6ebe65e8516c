"""Cost of a process from /proc: CPU seconds and resident memory, including children."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Positions in /proc/PID/stat, counted after the command's name (man 5 proc_pid_stat: utime is field 14).
_UTIME, _CSTIME_END = 11, 15


class CpuTimes(NamedTuple):
    user: float
    system: float

    def since(self, earlier: "CpuTimes") -> "CpuTimes":
        return CpuTimes(self.user - earlier.user, self.system - earlier.system)


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, of terminated children, and of running children."""
    return sum(cpu_times(pid))


def cpu_times(pid: int) -> CpuTimes:
    """User and system time separately."""
    times = [_own_cpu_times(process) for process in family(pid)]
    return CpuTimes(sum(time.user for time in times), sum(time.system for time in times))


def resident_bytes(pid: int) -> int:
    return sum(_own_resident_bytes(process) for process in family(pid))


def family(pid: int) -> Iterator[int]:
    """The process and its running descendants."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(children).split():
            yield from family(int(child))


def _own_cpu_times(pid: int) -> CpuTimes:
    after_name = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    ticks = [int(field) for field in after_name[_UTIME:_CSTIME_END]] or [0] * (_CSTIME_END - _UTIME)
    user, system, ended_user, ended_system = ticks
    return CpuTimes((user + ended_user) / _TICKS_PER_SECOND, (system + ended_system) / _TICKS_PER_SECOND)


def _own_resident_bytes(pid: int) -> int:
    fields = _read(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * _PAGE_BYTES if fields else 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has exited meanwhile
        return ""
