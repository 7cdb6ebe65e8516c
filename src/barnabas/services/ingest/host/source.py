"""Host source: a sample every few seconds, in the format read by the template `operations`.

Samples have no positions. After a broker outage the next rate covers the whole gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from barnabas.client.producing import RecordBatch, partition_for_key
from barnabas.common.types import TopicPartition
from barnabas.records import Header, Record
from barnabas.services.ingest.agent import SourceStatus
from barnabas.services.ingest.batches import BatchTopics
from barnabas.services.ingest.delivery import Collected
from barnabas.services.ingest.host.pages import MetricsPage, Pages
from barnabas.services.ingest.host.proc import DiskCounters, Interface, Machine, read_machine

# -- A sample: utilization and rates between two snapshots of a machine. Pure --------------------------


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


def _disk(before: DiskCounters, now: DiskCounters, seconds: float) -> dict[str, float]:
    return {
        "operations": _rate(now.operations - before.operations, seconds),
        "read_bytes": _rate(now.read_bytes - before.read_bytes, seconds),
        "written_bytes": _rate(now.written_bytes - before.written_bytes, seconds),
        "busy": _percent(now.busy_ms - before.busy_ms, 1000 * seconds),
    }


def _interface(before: Interface, now: Interface, seconds: float) -> dict[str, float]:
    return {name: _rate(getattr(now, name) - getattr(before, name), seconds) for name in Interface._fields}


def _rate(difference: int, seconds: float) -> float:
    """Rate per second; 0 after a counter reset, for example of a replugged device."""
    return round(max(0, difference) / seconds, 1)


def _percent(part: float, complete: float) -> float:
    return round(min(100.0, max(0.0, 100 * part / complete)), 1) if complete else 0.0


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    host: str
    service: str
    """Service that the samples belong to; also the key of the records."""
    every: float = 5.0
    pages: tuple[MetricsPage, ...] = ()
    tps: str | None = None
    """Counter whose rate is reported as transactions per second."""
    headers: tuple[Header, ...] = ()
    proc: str = "/proc"


class HostSource:
    kind: ClassVar[str] = "host"

    def __init__(
        self, name: str, settings: HostSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self.settings = settings
        self.samples = 0
        self._clock = clock
        self._pages = Pages(list(settings.pages))
        self._topics: BatchTopics | None = None
        self._last: tuple[float, Machine] = (clock(), read_machine(Path(settings.proc)))
        self._pages.ask()

    @property
    def topics(self) -> list[str]:
        return [self.settings.topic]

    def observe(self) -> SourceStatus:
        return SourceStatus(counts={"samples": self.samples, "errors": self._pages.failures})

    def begin(self, positions: Mapping[str, bytes], topics: BatchTopics) -> None:
        self._topics = topics

    def close(self) -> None:
        self._pages.close()

    def collect(self, room: int) -> Collected:
        collected = Collected()
        for page, rates in self._pages.answers():
            self._add(collected, page.service, self._counters(rates))
        at, before = self._last
        now = self._clock()
        if now - at >= self.settings.every:
            machine = read_machine(Path(self.settings.proc))
            self._add(collected, self.settings.service, sample(before, machine, now - at))
            self._last = (now, machine)
            self._pages.ask()
        return collected

    def _counters(self, rates: dict[str, float]) -> dict[str, Any]:
        report: dict[str, Any] = {"kind": "counters", "rates": rates}
        if self.settings.tps in rates:
            report["tps"] = rates[self.settings.tps]
        return report

    def _add(self, collected: Collected, service: str, report: dict[str, Any]) -> None:
        assert self._topics is not None, "begin first"
        topic, now = self.settings.topic, int(time.time() * 1000)
        value = msgspec.json.encode({"time": now, "service": service, "host": self.settings.host, **report})
        key = service.encode()
        tp = TopicPartition(topic, partition_for_key(key, self._topics.partitions(topic)))
        record = Record(0, now, key, value, (*self.settings.headers, ("host", self.settings.host.encode())))
        collected.batches.append(RecordBatch(tp, [record]))
        collected.records += 1
        collected.bytes += len(value)
        self.samples += 1
