"""Parse counters of a Prometheus page and compute rates between two scrapes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

Counters = dict[tuple[str, str], float]
"""Values by metric name and label text."""
COUNTED = ("_count", "_sum")
"""Suffixes of the counters of a histogram or summary: number and sum of observations."""


def parse_counters(page: str) -> Counters:
    """Parse all counters of a page; skip malformed lines."""
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
    kind = kinds.get(name) or kinds.get(name.removesuffix("_total"))  # OpenMetrics omits the suffix in TYPE
    if kind is not None:
        return kind == "counter"
    for ending in COUNTED:
        if name.endswith(ending):
            return kinds.get(name.removesuffix(ending)) in ("histogram", "summary")
    return name.endswith("_total")


def rates(before: Counters, now: Counters, seconds: float) -> dict[str, float]:
    """Return rates per second by metric, summed over its labels. A counter that decreased was reset to zero."""
    found: dict[str, float] = defaultdict(float)
    for series, value in now.items():
        if series not in before:
            continue
        grown = value - before[series]
        found[series[0]] += (grown if grown >= 0 else value) / seconds
    return {name: round(rate, 3) for name, rate in sorted(found.items())}
