"""Records of generators, in the order in which a broker receives them; the same seed yields the same records."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Generated(NamedTuple):
    """One record. `time` is the event time in milliseconds; records arrive in the order of generation."""

    topic: str
    """By the template's setting that names it, such as `activity.topic`."""
    key: str | None
    value: bytes | None
    time: int


def as_json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def delayed(
    events: Iterable[tuple[int, dict[str, Any]]], chance: random.Random, share: float, longest: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The same events in the order of their arrival: a share of them comes up to `longest` milliseconds late."""
    waiting: list[tuple[int, int, int, dict[str, Any]]] = []
    for number, (time, event) in enumerate(events):
        late = chance.randrange(longest) if chance.random() < share else 0
        heapq.heappush(waiting, (time + late, number, time, event))
        while waiting and waiting[0][0] <= time:
            _, _, moment, ready = heapq.heappop(waiting)
            yield moment, ready
    for _, _, moment, ready in sorted(waiting):
        yield moment, ready
