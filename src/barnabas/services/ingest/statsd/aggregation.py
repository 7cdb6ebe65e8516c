"""Measurements of one interval, added up. Memory is bounded by series, and by samples of each timer and set. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

import random
from dataclasses import dataclass, field
from typing import Any



# -- Lines of statsd: `name:value|type`, with `|@rate` and with tags as Datadog (`|#a:b,c`) writes them. Pure 

Kind = Literal["counter", "gauge", "timer", "set"]
Tags = tuple[tuple[str, str], ...]
LONGEST_NAME = 512
MOST_TAGS = 32
LARGEST_VALUE = 1e15
SMALLEST_RATE = 1e-6
"""With these no sum of an interval is infinite."""

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
    """Numbers, but of a set, where they are anything."""
    weight: float = 1.0
    """How many there were for each that was sent (`@0.1`: ten)."""
    tags: Tags = ()


def parse_line(line: str) -> Measured | None:
    """None for what is no measurement."""
    name, _, rest = line.partition(":")
    values, *parts = rest.split("|")
    kind = _KINDS.get(parts[0].strip()) if parts else None
    if kind is None or not 0 < len(name) <= LONGEST_NAME or not values:
        return None
    given = tuple(values.split(":"))
    if kind != "set" and not all(map(_is_number, given)):
        return None
    weight, tags = 1.0, Tags()
    for part in parts[1:]:
        if part.startswith("@"):
            if not _is_number(part[1:]) or not SMALLEST_RATE <= float(part[1:]) <= 1:
                return None
            weight = 1 / float(part[1:])
        elif part.startswith("#"):
            tags = _tags(part[1:])
    return Measured(name, kind, given, weight, tags)


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) <= LARGEST_VALUE and "_" not in text
    except ValueError:
        return False


def _tags(text: str) -> Tags:
    """In their order by name, so that the same tags are the same series."""
    pairs = [part.partition(":") for part in text.split(",")[:MOST_TAGS] if part]
    return tuple(sorted({name: value for name, _, value in pairs if name}.items()))



MOST_SERIES = 10_000
MOST_SAMPLES = 1000
"""Of a timer, chosen at random, for its percentiles; count, sum, least and most are of all."""
MOST_MEMBERS = 10_000
"""Of a set; of more it is known that there are at least so many."""

Series = tuple[str, Kind, Tags]
Reports = list[tuple[Series, dict[str, float]]]


@dataclass(slots=True)
class Timer:
    count: float = 0.0
    sum: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")
    seen: int = 0
    samples: list[float] = field(default_factory=list)

    def add(self, value: float, weight: float) -> None:
        self.count += weight
        self.sum += value * weight
        self.least, self.most = min(self.least, value), max(self.most, value)
        self.seen += 1
        if len(self.samples) < MOST_SAMPLES:
            self.samples.append(value)
        elif (place := random.randrange(self.seen)) < MOST_SAMPLES:
            self.samples[place] = value

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
    def __init__(self) -> None:
        self._counters: dict[Series, float] = {}
        self._gauges: dict[Series, float] = {}
        """They stay: a gauge may be changed by `+1`."""
        self._changed: set[Series] = set()
        self._timers: dict[Series, Timer] = {}
        self._sets: dict[Series, set[str]] = {}

    def add(self, measured: Measured) -> bool:
        """False: there are too many series."""
        series = (measured.name, measured.kind, measured.tags)
        if not self._has_room(series):
            return False
        for value in measured.values:
            if measured.kind == "counter":
                self._counters[series] = self._counters.get(series, 0.0) + float(value) * measured.weight
            elif measured.kind == "timer":
                self._timers.setdefault(series, Timer()).add(float(value), measured.weight)
            elif measured.kind == "set":
                members = self._sets.setdefault(series, set())
                if len(members) < MOST_MEMBERS:
                    members.add(value)
            else:
                before = self._gauges.get(series, 0.0) if value[0] in "+-" else 0.0
                self._gauges[series] = before + float(value)
                self._changed.add(series)
        return True

    def _has_room(self, series: Series) -> bool:
        of_kind: dict[Kind, dict[Series, Any]] = {
            "counter": self._counters,
            "gauge": self._gauges,
            "timer": self._timers,
            "set": self._sets,
        }
        known = of_kind[series[1]]
        return series in known or len(known) < MOST_SERIES

    def report(self, seconds: float) -> list[dict[str, Any]]:
        """What was measured since the last report."""
        counters: Reports = [
            (series, {"value": round(value, 3), "rate": round(value / seconds, 3)})
            for series, value in self._counters.items()
        ]
        gauges: Reports = [(series, {"value": self._gauges[series]}) for series in sorted(self._changed)]
        timers: Reports = [(series, timer.report(seconds)) for series, timer in self._timers.items()]
        sets: Reports = [(series, {"value": len(members)}) for series, members in self._sets.items()]
        for each in (self._counters, self._changed, self._timers, self._sets):
            each.clear()
        if len(self._gauges) >= MOST_SERIES:
            self._gauges.clear()
        return [
            {"kind": kind, "name": name, **({"tags": dict(tags)} if tags else {}), **values}
            for (name, kind, tags), values in (*counters, *gauges, *timers, *sets)
        ]
