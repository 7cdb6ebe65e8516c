"""Services of a shop at work, from a seed. Now and then one of them has a bad time, and it gets over it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from barnabas.pipelines.library.records import Generated, as_json, delayed

TOPIC = "operations.topic"
SERVICES = {"checkout": 40.0, "catalogue": 15.0, "search": 60.0, "payment": 120.0, "images": 8.0}
"""With the middle of their request times in milliseconds."""
HOSTS_PER_SERVICE = 2
LATE_SHARE = 0.01
MAX_DELAY = 20_000  # milliseconds; below the watermark of the template, so that nothing is lost
MESSAGES = {
    "INFO": "request served",
    "WARN": "slow answer from the database",
    "ERROR": "could not reach the bank",
}


class Incident(NamedTuple):
    """A service is slow and fails, from one moment to another (milliseconds since the start)."""

    service: str
    begin: int
    end: int


INCIDENTS = (Incident("checkout", 600_000, 1_200_000), Incident("search", 1_500_000, 2_000_000))


def records(
    seed: int, start: int, per_second: float, incidents: tuple[Incident, ...] = INCIDENTS
) -> Iterator[Generated]:
    """Without end, about `per_second` records for each second of the services' time from `start` on."""
    chance = random.Random(seed)
    for time, event in delayed(_events(chance, start, per_second, incidents), chance, LATE_SHARE, MAX_DELAY):
        yield Generated(TOPIC, event["service"], as_json(event), time)


def _events(
    chance: random.Random, start: int, per_second: float, incidents: tuple[Incident, ...]
) -> Iterator[tuple[int, dict[str, Any]]]:
    moment = 0.0
    services = tuple(SERVICES)
    while True:
        moment += chance.expovariate(per_second / 1000)
        service = chance.choice(services)
        in_trouble = any(each.service == service and each.begin <= moment < each.end for each in incidents)
        time = start + int(moment)
        yield (
            time,
            {
                "time": time,
                "service": service,
                "host": _host(chance, service),
                **_facts(chance, service, in_trouble),
            },
        )


def _host(chance: random.Random, service: str) -> str:
    return f"{service}-{chance.randrange(HOSTS_PER_SERVICE)}"


def _facts(chance: random.Random, service: str, in_trouble: bool) -> dict[str, Any]:
    kind = chance.choices(("request", "host", "log"), (70, 15, 15))[0]
    if kind == "request":
        duration = SERVICES[service] * chance.lognormvariate(0, 0.5) * (12 if in_trouble else 1)
        failed = chance.random() < (0.3 if in_trouble else 0.01)
        return {"kind": kind, "duration_ms": round(duration, 1), "status": 503 if failed else 200}
    if kind == "host":
        cpu = chance.gauss(88 if in_trouble else 35, 6)
        return {
            "kind": kind,
            "cpu": round(min(100.0, max(0.0, cpu)), 1),
            "io_wait": round(chance.random() * 5, 2),
        }
    level = chance.choices(tuple(MESSAGES), (50, 20, 30) if in_trouble else (94, 5, 1))[0]
    return {"kind": kind, "level": level, "message": MESSAGES[level]}
