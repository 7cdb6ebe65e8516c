"""Measurements of one interval, added up. Memory is bounded by series, and by samples of each timer and set. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from barnabas.services.ingest.statsd.parsing import Kind, Measured, Tags

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
