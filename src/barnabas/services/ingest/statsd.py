"""statsd source of an agent: aggregates counters, gauges, timers and sets, and reports them once per interval.

Memory is bounded by bytes, series and samples per series.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from barnabas.records import Header, Record
from barnabas.services.ingest.delivery import Collected
from barnabas.services.ingest.sockets.framing import FrameDecoder
from barnabas.services.ingest.sockets.source import SocketSource

# -- Lines: `name:value|type` with optional `|@rate` and Datadog tags (`|#a:b,c`). No I/O --------------

Kind = Literal["counter", "gauge", "timer", "set"]
Tags = tuple[tuple[str, str], ...]
MAX_NAME = 512
MAX_TAGS = 32
MAX_VALUE = 1e15
MIN_RATE = 1e-6
"""Bounds that keep the sums of an interval finite."""

_KINDS: dict[str, Kind] = {
    "c": "counter",
    "g": "gauge",
    "ms": "timer",
    "h": "timer",
    "d": "timer",
    "s": "set",
}


class Measured(NamedTuple):
    name: str
    kind: Kind
    values: tuple[str, ...]
    """Numbers; for a set, arbitrary text."""
    weight: float = 1.0
    """Inverse of the sample rate: 10 for `@0.1`."""
    tags: Tags = ()


def parse_line(line: str) -> Measured | None:
    """Parse a line; None if it is malformed."""
    name, _, rest = line.partition(":")
    values, *parts = rest.split("|")
    kind = _KINDS.get(parts[0].strip()) if parts else None
    if kind is None or not 0 < len(name) <= MAX_NAME or not values:
        return None
    given = tuple(values.split(":"))
    if kind != "set" and not all(map(_is_number, given)):
        return None
    weight, tags = 1.0, Tags()
    for part in parts[1:]:
        if part.startswith("@"):
            if not _is_number(part[1:]) or not MIN_RATE <= float(part[1:]) <= 1:
                return None
            weight = 1 / float(part[1:])
        elif part.startswith("#"):
            tags = _tags(part[1:])
    return Measured(name, kind, given, weight, tags)


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) <= MAX_VALUE and "_" not in text
    except ValueError:
        return False


def _tags(text: str) -> Tags:
    """Parse tags, sorted by name: equal tags identify the same series."""
    pairs = [part.partition(":") for part in text.split(",")[:MAX_TAGS] if part]
    return tuple(sorted({name: value for name, _, value in pairs if name}.items()))


MAX_SERIES = 10_000
MAX_SAMPLES = 1000
"""Random samples per timer, for percentiles; count, sum, minimum and maximum cover all values."""
MAX_MEMBERS = 10_000
"""Members kept per set; the reported size of a larger set is a lower bound."""

SERIES_BYTES, SAMPLE_BYTES, MEMBER_BYTES = 512, 40, 120
"""Memory overhead in bytes, excluding the text of names, tags and members."""

Series = tuple[str, Kind, Tags]
Reports = list[tuple[Series, dict[str, float]]]


@dataclass(slots=True)
class TimingAggregate:
    count: float = 0.0
    sum: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")
    seen: int = 0
    samples: list[float] = field(default_factory=list)

    def add(self, value: float, weight: float, *, has_room: bool = True) -> bool:
        """Add a value; return True if the number of samples increased."""
        self.count += weight
        self.sum += value * weight
        self.least, self.most = min(self.least, value), max(self.most, value)
        self.seen += 1
        if not self.samples or (has_room and len(self.samples) < MAX_SAMPLES):
            self.samples.append(value)
            return True
        if (index := random.randrange(self.seen)) < len(self.samples):
            self.samples[index] = value
        return False

    def report(self, seconds: float) -> dict[str, float]:
        ordered = sorted(self.samples)
        return {
            "count": round(self.count, 3),
            "rate": round(self.count / seconds, 3),
            "mean": round(self.sum / self.count, 6),
            "min": self.least,
            "max": self.most,
            **{
                f"p{part}": ordered[min(len(ordered) - 1, len(ordered) * part // 100)]
                for part in (50, 95, 99)
            },
        }


class Aggregation:
    def __init__(self, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._counters: dict[Series, float] = {}
        self._gauges: dict[Series, float] = {}
        """Kept across intervals: `+1` changes the previous value."""
        self._changed: set[Series] = set()
        self._timers: dict[Series, TimingAggregate] = {}
        self._sets: dict[Series, set[str]] = {}

    def add(self, measured: Measured) -> bool:
        """Add a measurement; False if it exceeds the series or memory limit."""
        series = (measured.name, measured.kind, measured.tags)
        if not self._reserve(series):
            return False
        for value in measured.values:
            if measured.kind == "counter":
                self._counters[series] = self._counters.get(series, 0.0) + float(value) * measured.weight
            elif measured.kind == "timer":
                timer, has_room = (
                    self._timers.setdefault(series, TimingAggregate()),
                    self._bytes < self._max_bytes,
                )
                self._bytes += SAMPLE_BYTES * timer.add(float(value), measured.weight, has_room=has_room)
            elif measured.kind == "set":
                self._add_member(self._sets.setdefault(series, set()), value)
            else:
                before = self._gauges.get(series, 0.0) if value[0] in "+-" else 0.0
                self._gauges[series] = before + float(value)
                self._changed.add(series)
        return True

    def _add_member(self, members: set[str], value: str) -> None:
        size = MEMBER_BYTES + len(value)
        if value not in members and len(members) < MAX_MEMBERS and self._bytes + size <= self._max_bytes:
            members.add(value)
            self._bytes += size

    def _reserve(self, series: Series) -> bool:
        of_kind: dict[Kind, dict[Series, Any]] = {
            "counter": self._counters,
            "gauge": self._gauges,
            "timer": self._timers,
            "set": self._sets,
        }
        known = of_kind[series[1]]
        if series in known:
            return True
        size = _size_of(series)
        if len(known) >= MAX_SERIES or self._bytes + size > self._max_bytes:
            return False
        self._bytes += size
        return True

    def report(self, seconds: float) -> list[dict[str, Any]]:
        """Return the measurements since the last report and start a new interval."""
        counters: Reports = [
            (series, {"value": round(value, 3), "rate": round(value / seconds, 3)})
            for series, value in self._counters.items()
        ]
        gauges: Reports = [(series, {"value": self._gauges[series]}) for series in sorted(self._changed)]
        timers: Reports = [(series, timer.report(seconds)) for series, timer in self._timers.items()]
        sets: Reports = [(series, {"value": len(members)}) for series, members in self._sets.items()]
        for each in (self._counters, self._changed, self._timers, self._sets):
            each.clear()
        self._bytes = sum(map(_size_of, self._gauges))
        if len(self._gauges) >= MAX_SERIES or self._bytes > self._max_bytes // 2:
            self._gauges.clear()
            self._bytes = 0
        return [
            {"kind": kind, "name": name, **({"tags": dict(tags)} if tags else {}), **values}
            for (name, kind, tags), values in (*counters, *gauges, *timers, *sets)
        ]


def _size_of(series: Series) -> int:
    name, _, tags = series
    return SERIES_BYTES + len(name) + sum(len(key) + len(value) + 2 * SAMPLE_BYTES for key, value in tags)


# -- Settings, with the same names on the command line and in agent.yml ---------------------------------

DEFAULT_STATSD_LISTEN = "127.0.0.1:8125"


class StatsdSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: str
    host: str
    listen: str | list[str] = DEFAULT_STATSD_LISTEN
    every: float = 10.0
    key: str | None = None
    """None: the name of the metric."""
    headers: tuple[Header, ...] = ()
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    max_message_bytes: int = 64 * 1024
    max_bytes: int = 64 * 1024 * 1024
    """Memory limit of all series of an interval; measurements above it are dropped and counted."""
    connections: int = 500
    idle_timeout: float = 3600.0
    compression: str = "none"


class StatsdSource(SocketSource):
    kind: ClassVar[str] = "statsd"

    def __init__(
        self, name: str, settings: StatsdSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if settings.every <= 0:
            raise ValueError("every must be greater than 0")
        super().__init__(name, settings, lambda: FrameDecoder(settings.max_message_bytes, counted=False))
        self.settings = settings
        self._clock = clock
        self._aggregation = Aggregation(settings.max_bytes)
        self._reported = clock()

    def collect(self, room: int) -> Collected:
        self._add_up(room)  # also while a report is being committed
        return super().collect(room)

    def _taken(self, room: int) -> list[Record]:
        is_due = self._is_ending or self._clock() - self._reported >= self.settings.every
        return self._report() if is_due else []

    def _add_up(self, room: int) -> None:
        """Aggregate received messages of one or more lines; ignore a truncated last line."""
        for received in self._inbox.take(room):
            lines = received.frame.data.decode(errors="replace").splitlines()
            complete = lines if received.frame.is_whole else lines[:-1]
            self.counts.truncated += len(lines) - len(complete)
            for line in filter(None, complete):
                measured = parse_line(line)
                if measured is None:
                    self.counts.unparsed += 1
                elif not self._aggregation.add(measured):
                    self.counts.dropped += 1

    def _report(self) -> list[Record]:
        now = self._clock()
        seconds, self._reported = max(now - self._reported, 0.001), now
        at = int(time.time() * 1000)
        records = []
        for report in self._aggregation.report(seconds):
            value = msgspec.json.encode({"time": at, "host": self.settings.host, **report})
            key = report["name"] if self.settings.key is None else self.settings.key
            records.append(Record(0, at, key.encode(errors="replace"), value, self.settings.headers))
        return records
