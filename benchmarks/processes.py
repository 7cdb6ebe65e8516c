"""What a process costs, read from /proc: CPU seconds and resident memory, its children included."""

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Positions in /proc/PID/stat, counted after the command's name (man 5 proc_pid_stat: utime is field 14).
_UTIME, _CSTIME_END = 11, 15


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, of children that ended, and of children that live."""
    return sum(_own_cpu_seconds(process) for process in family(pid))


def resident_bytes(pid: int) -> int:
    return sum(_own_resident_bytes(process) for process in family(pid))


def family(pid: int) -> Iterator[int]:
    """The process and its living descendants."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(children).split():
            yield from family(int(child))


def _own_cpu_seconds(pid: int) -> float:
    after_name = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(int(ticks) for ticks in after_name[_UTIME:_CSTIME_END]) / _TICKS_PER_SECOND


def _own_resident_bytes(pid: int) -> int:
    fields = _read(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * _PAGE_BYTES if fields else 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended between two looks
        return ""
