"""Parse Linux kernel counters from /proc. Pure, except for `read_machine`, which reads the files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from barnabas.services.ingest.agent import NoProcError

SECTOR = 512
"""Bytes per sector in /proc/diskstats, independent of the device."""
NO_DISKS = ("loop", "ram", "zram", "fd", "sr", "dm-", "md")
"""Prefixes of virtual devices, and of devices on top of disks that are counted already."""
QUIET_INTERFACES = ("lo", "ifb", "veth", "dummy")


class Cpu(NamedTuple):
    """CPU time in ticks, summed over all cores."""

    total: int
    idle: int
    io_wait: int


class DiskCounters(NamedTuple):
    operations: int
    read_bytes: int
    written_bytes: int
    busy_ms: int


class Interface(NamedTuple):
    received_bytes: int
    sent_bytes: int
    errors: int


class Memory(NamedTuple):
    """Memory in KiB."""

    total: int
    available: int
    swap: int
    swap_free: int


class Machine(NamedTuple):
    """Snapshot of the counters and gauges of a machine."""

    cpu: Cpu
    disks: dict[str, DiskCounters]
    interfaces: dict[str, Interface]
    memory: Memory
    load: float
    connections: int
    """Established TCP connections."""
    filesystems: dict[str, float]
    """Used space in percent, by mount point."""


def read_machine(folder: Path = Path("/proc")) -> Machine:
    try:
        stat = (folder / "stat").read_text()
    except OSError:
        raise NoProcError(str(folder)) from None
    return Machine(
        parse_cpu(stat),
        parse_disks(_text(folder / "diskstats")),
        parse_interfaces(_text(folder / "net/dev")),
        parse_memory(_text(folder / "meminfo")),
        float((_text(folder / "loadavg") or "0").split()[0]),
        parse_connections(_text(folder / "net/snmp")),
        dict(_fullness(parse_mounts(_text(folder / "mounts")))),
    )


def _text(path: Path) -> str:
    """Return the text of a file; empty if it is missing, as in some containers."""
    try:
        return path.read_text()
    except OSError:
        return ""


def parse_cpu(text: str) -> Cpu:
    """Parse the first line: user nice system idle iowait irq softirq steal. Guest time is included in user."""
    times = [int(word) for word in text.partition("\n")[0].split()[1:9]]
    return Cpu(sum(times), times[3], times[4])


def parse_disks(text: str) -> dict[str, DiskCounters]:
    """Parse whole disks with any activity; skip partitions, whose names begin with the name of their disk."""
    rows = {words[2]: words for line in text.splitlines() if len(words := line.split()) >= 13}
    return {
        name: DiskCounters(
            int(words[3]) + int(words[7]), int(words[5]) * SECTOR, int(words[9]) * SECTOR, int(words[12])
        )
        for name, words in rows.items()
        if not name.startswith(NO_DISKS)
        and not _is_partition(name, rows)
        and words[3:] != ["0"] * len(words[3:])
    }


def _is_partition(name: str, names: Iterable[str]) -> bool:
    """True for sda1 of sda, or nvme0n1p2 of nvme0n1."""
    return any(
        name != disk and name.startswith(disk) and name[len(disk) :].removeprefix("p").isdigit()
        for disk in names
    )


def parse_interfaces(text: str) -> dict[str, Interface]:
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        words = rest.split()
        if colon and len(words) >= 16 and not name.strip().startswith(QUIET_INTERFACES):
            numbers = [int(word) for word in words]
            found[name.strip()] = Interface(numbers[0], numbers[8], numbers[2] + numbers[10])
    return found


def parse_memory(text: str) -> Memory:
    values = {
        name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in text.splitlines())
    }
    free = values.get("MemAvailable", values.get("MemFree", 0))
    return Memory(values.get("MemTotal", 0), free, values.get("SwapTotal", 0), values.get("SwapFree", 0))


def parse_connections(text: str) -> int:
    """Return CurrEstab, which covers IPv4 and IPv6: cheaper than listing the connections."""
    lines = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    if len(lines) != 2:
        return 0
    return int(dict(zip(*lines, strict=False)).get("CurrEstab", "0"))


def parse_mounts(text: str) -> dict[str, str]:
    """Return one mount point per local device. Excludes network mounts: statvfs blocks if their server is down."""
    mounts: dict[str, str] = {}
    for line in text.splitlines():
        device, path, *_ = line.split(" ")
        if device.startswith("/dev/") and not device.startswith("/dev/loop"):
            mounts.setdefault(device, path.replace("\\040", " "))
    return mounts


def _fullness(mounts: dict[str, str]) -> Iterable[tuple[str, float]]:
    for path in mounts.values():
        try:
            found = os.statvfs(path)
        except OSError:
            continue
        used = found.f_blocks - found.f_bfree
        if used + found.f_bavail:
            yield path, round(100 * used / (used + found.f_bavail), 1)
