"""Two looks at a machine make a sample: how busy it was in between. Pure.

A sample is a report of the kind `host`, as the template `operations` reads them: percentages are 0 to 100 over all
cores, everything else is per second.
"""

from __future__ import annotations

from typing import Any

from barnabas.services.ingest.host.proc import Disk, Interface, Machine


def sample(before: Machine, now: Machine, seconds: float) -> dict[str, Any]:
    ticks = max(1, now.cpu.total - before.cpu.total)
    waiting = now.cpu.io_wait - before.cpu.io_wait
    idle = now.cpu.idle - before.cpu.idle
    memory = now.memory
    return {
        "kind": "host",
        "cpu": _percent(ticks - idle - waiting, ticks),
        "io_wait": _percent(waiting, ticks),
        "load": now.load,
        "memory": _percent(memory.total - memory.available, memory.total),
        "swap": _percent(memory.swap - memory.swap_free, memory.swap),
        "connections": now.connections,
        "disks": {
            name: _disk(before.disks[name], disk, seconds)
            for name, disk in now.disks.items()
            if name in before.disks
        },
        "network": {
            name: _interface(before.interfaces[name], interface, seconds)
            for name, interface in now.interfaces.items()
            if name in before.interfaces
        },
        "filesystems": now.filesystems,
    }


def _disk(before: Disk, now: Disk, seconds: float) -> dict[str, float]:
    return {
        "operations": _rate(now.operations - before.operations, seconds),
        "read_bytes": _rate(now.read_bytes - before.read_bytes, seconds),
        "written_bytes": _rate(now.written_bytes - before.written_bytes, seconds),
        "busy": _percent(now.busy_ms - before.busy_ms, 1000 * seconds),
    }


def _interface(before: Interface, now: Interface, seconds: float) -> dict[str, float]:
    return {name: _rate(getattr(now, name) - getattr(before, name), seconds) for name in Interface._fields}


def _rate(difference: int, seconds: float) -> float:
    """A counter that began again, as that of a device that was plugged in anew, has no rate yet."""
    return round(max(0, difference) / seconds, 1)


def _percent(part: float, whole: float) -> float:
    return round(min(100.0, max(0.0, 100 * part / whole)), 1) if whole else 0.0
