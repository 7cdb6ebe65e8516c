"""Events of a shop's visitors, from a seed. Each visitor prefers items of one taste; the other views are random.

The known tastes allow tests to measure the quality of recommendations: `taste_of` returns the taste of an item.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from barnabas.pipelines.library.records import Generated, as_json

TOPIC = "recommend.topic"
TASTES = 12
ITEMS = 600
VISITORS = 1_500
OWN_TASTE = 0.8
"""Share of events with items of the visitor's taste."""
EVENTS_PER_VISIT = 6
KINDS, WEIGHTS = ("view", "click", "cart", "order"), (70, 18, 8, 4)
BAD_VALUE = b'{"id": "broken", "time": '


def preference_of(item: str) -> int:
    return int(item.removeprefix("i")) % TASTES


def preference_of_visitor(visitor: str) -> int:
    return int(visitor.removeprefix("v")) * 7 % TASTES


def records(seed: int, start: int, per_second: float, bad_share: float = 0.0) -> Iterator[Generated]:
    """Without end, about `per_second` events for each second of the shop's time from `start` (milliseconds) on."""
    chance = random.Random(seed)
    numbers = itertools.count()
    time = float(start)
    while True:
        visitor = f"v{chance.randrange(VISITORS)}"
        for _ in range(max(1, round(chance.gauss(EVENTS_PER_VISIT, 2)))):
            event = {
                "id": f"e{next(numbers)}",
                "time": int(time),
                "visitor": visitor,
                "kind": chance.choices(KINDS, WEIGHTS)[0],
                "item": _item(chance, visitor),
            }
            if bad_share and chance.random() < bad_share:
                yield Generated(TOPIC, None, BAD_VALUE, int(time))
            yield Generated(TOPIC, visitor, as_json(event), int(time))
            time += chance.expovariate(per_second / 1000)


def _item(chance: random.Random, visitor: str) -> str:
    """Choose an item; popularity is skewed, both within a taste and in the whole shop."""
    if chance.random() < OWN_TASTE:
        rank = min(int(chance.expovariate(0.08)), ITEMS // TASTES - 1)
        return f"i{rank * TASTES + preference_of_visitor(visitor)}"
    return f"i{min(int(chance.expovariate(0.02)), ITEMS - 1)}"
