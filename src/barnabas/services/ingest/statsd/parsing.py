"""Lines of statsd: `name:value|type`, with `|@rate` and with tags as Datadog (`|#a:b,c`) writes them. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

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
