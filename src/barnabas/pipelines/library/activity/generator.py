"""Visitors of a shop, from a seed: they come, look around for some minutes, search, and some of them buy."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterator
from typing import Any

from barnabas.pipelines.library.records import Generated, as_json, delayed

TOPIC = "activity.topic"
PAGES = (
    "/",
    "/shoes",
    "/shirts",
    "/hats",
    "/bags",
    "/sale",
    "/shoes/trail-runner",
    "/bags/weekender",
    "/help",
)
TERMS = ("running shoes", "rain jacket", "linen shirt", "backpack", "wool hat", "gift card", "sandals")
VISITORS = 20_000
LATE_SHARE = 0.02
MAX_DELAY = 120_000  # milliseconds; below the watermark of the template, so that nothing is lost
EVENTS_PER_VISIT = 8  # on average
BAD_VALUE = b'{"id": "broken", "time": '


def records(seed: int, start: int, per_second: float, bad_share: float = 0.0) -> Iterator[Generated]:
    """Without end, about `per_second` events for each second of the shop's time from `start` (milliseconds) on."""
    chance = random.Random(seed)
    for time, event in delayed(_events(chance, start, per_second), chance, LATE_SHARE, MAX_DELAY):
        if bad_share and chance.random() < bad_share:
            yield Generated(TOPIC, None, BAD_VALUE, time)
        yield Generated(TOPIC, event["visitor"], as_json(event), time)


def _events(chance: random.Random, start: int, per_second: float) -> Iterator[tuple[int, dict[str, Any]]]:
    """All visits, event by event, in the order of time."""
    numbers = itertools.count()
    between_visits = EVENTS_PER_VISIT / per_second
    arrival = float(start)
    in_progress: list[tuple[int, int, Iterator[tuple[int, dict[str, Any]]], dict[str, Any]]] = []
    while True:
        while not in_progress or arrival <= in_progress[0][0]:
            visit = _visit(chance, int(arrival))
            time, event = next(visit)
            heapq.heappush(in_progress, (time, next(numbers), visit, event))
            arrival += chance.expovariate(1 / (between_visits * 1000))
        time, _, visit, event = heapq.heappop(in_progress)
        yield time, {"id": f"e{next(numbers)}", **event}
        following = next(visit, None)
        if following is not None:
            heapq.heappush(in_progress, (following[0], next(numbers), visit, following[1]))


def _visit(chance: random.Random, time: int) -> Iterator[tuple[int, dict[str, Any]]]:
    visitor = f"v{chance.randrange(VISITORS)}"
    bought = False
    for step in range(max(1, round(chance.gauss(EVENTS_PER_VISIT, 3)))):
        kind = "view" if step == 0 else _kind(chance, bought)
        bought = bought or kind == "order"
        yield time, _event(chance, visitor, kind, time)
        time += 1000 + int(chance.expovariate(1 / 20_000))


def _kind(chance: random.Random, bought: bool) -> str:
    kinds = ("view", "search", "click", "cart", "order")
    return chance.choices(kinds, (50, 15, 20, 10, 0 if bought else 5))[0]


def _event(chance: random.Random, visitor: str, kind: str, time: int) -> dict[str, Any]:
    page = PAGES[min(int(chance.expovariate(0.5)), len(PAGES) - 1)]
    return {
        "time": time,
        "visitor": visitor,
        "kind": kind,
        "page": page,
        "query": chance.choice(TERMS) if kind == "search" else None,
        "amount": round(chance.uniform(9, 190), 2) if kind == "order" else None,
    }
