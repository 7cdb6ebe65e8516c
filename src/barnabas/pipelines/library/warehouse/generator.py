"""Orders of a shop, from a seed: something to load."""

from __future__ import annotations

import random
from collections.abc import Iterator

from barnabas.pipelines.library.records import Generated, as_json

TOPIC = "warehouse.topics"
COUNTRIES = ("AT", "DE", "FR", "GR", "IT", "NL")


def records(seed: int, start: int, per_second: float) -> Iterator[Generated]:
    """Without end, about `per_second` orders for each second of the shop's time from `start` on."""
    chance = random.Random(seed)
    moment, number = float(start), 0
    while True:
        moment += chance.expovariate(per_second / 1000)
        number += 1
        order = {
            "order": number,
            "customer": f"c{chance.randrange(5_000)}",
            "country": chance.choice(COUNTRIES),
            "amount": round(chance.uniform(5, 250), 2),
        }
        yield Generated(TOPIC, f"o{number}", as_json(order), int(moment))
