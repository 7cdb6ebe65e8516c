"""Counters of a Prometheus page, and their rates between two looks at it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

Counters = dict[tuple[str, str], float]
"""Values by the name of a metric and its labels as they stand there."""
COUNTED = ("_count", "_sum")
"""Of histograms and summaries: how many there were, and how much they were together."""


def parse_counters(page: str) -> Counters:
    """Lines that are no samples are passed over: one bad line of a program is no reason to see none of it."""
    kinds: dict[str, str] = {}
    found: Counters = {}
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            words = line.split()
            if len(words) == 4:
                kinds[words[2]] = words[3]
        elif line and not line.startswith("#"):
            name, labels, value = _sample(line)
            if value is not None and _is_counter(name, kinds):
                found[name, labels] = value
    return found


def _sample(line: str) -> tuple[str, str, float | None]:
    if "{" in line:
        end = line.rfind("}")
        name, _, labels = line[:end].partition("{")
        rest = line[end + 1 :].split()
    else:
        name, labels, rest = line.split()[0], "", line.split()[1:]
    try:
        return name, labels, float(rest[0])
    except (IndexError, ValueError):
        return name, labels, None


def _is_counter(name: str, kinds: Mapping[str, str]) -> bool:
    kind = kinds.get(name) or kinds.get(name.removesuffix("_total"))  # OpenMetrics leaves the ending out
    if kind is not None:
        return kind == "counter"
    for ending in COUNTED:
        if name.endswith(ending):
            return kinds.get(name.removesuffix(ending)) in ("histogram", "summary")
    return name.endswith("_total")


def rates(before: Counters, now: Counters, seconds: float) -> dict[str, float]:
    """Per second, by metric: all its labels together. A counter that is smaller than before began again at zero."""
    found: dict[str, float] = defaultdict(float)
    for series, value in now.items():
        if series not in before:
            continue
        grown = value - before[series]
        found[series[0]] += (grown if grown >= 0 else value) / seconds
    return {name: round(rate, 3) for name, rate in sorted(found.items())}
