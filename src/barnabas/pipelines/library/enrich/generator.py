"""Orders, and the customers they are of, who move house now and then, from a seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from barnabas.pipelines.library.records import Generated, as_json

ORDERS = "enrich.orders"
CUSTOMERS = "enrich.customers"
COUNT = 200
UNKNOWN_CUSTOMERS = 5  # customers that no table knows
CITIES = ("Athens", "Lyon", "Utrecht", "Graz", "Turin", "Bremen")
CHANGE_SHARE = 0.02
LEAVING_SHARE = 0.1


def records(seed: int, start: int, per_second: float) -> Iterator[Generated]:
    """All customers first, then without end orders, and changes of customers among them."""
    chance = random.Random(seed)
    for number in range(COUNT):
        yield _customer(chance, number, start)
    moment = float(start)
    for order in itertools.count(1):
        moment += chance.expovariate(per_second / 1000)
        if chance.random() < CHANGE_SHARE:
            yield _change(chance, int(moment))
        facts = {
            "order": order,
            "customer": f"c{chance.randrange(COUNT + UNKNOWN_CUSTOMERS)}",
            "amount": round(chance.uniform(5, 250), 2),
            "time": int(moment),
        }
        yield Generated(ORDERS, f"o{order}", as_json(facts), int(moment))


def _customer(chance: random.Random, number: int, time: int) -> Generated:
    level = chance.choice(("basic", "silver", "gold"))
    facts = {"name": f"Customer {number}", "city": chance.choice(CITIES), "level": level}
    return Generated(CUSTOMERS, f"c{number}", as_json(facts), time)


def _change(chance: random.Random, time: int) -> Generated:
    """A customer moves or, more rarely, leaves: a null value takes a row out of a compacted topic."""
    number = chance.randrange(COUNT)
    if chance.random() < LEAVING_SHARE:
        return Generated(CUSTOMERS, f"c{number}", None, time)
    return _customer(chance, number, time)
