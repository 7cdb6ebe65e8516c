"""Log files of a few applications, line by line, from a seed: with stack traces, personal data and broken lines."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime

from barnabas.pipelines.library.records import Generated

TOPIC = "logs.topic"
SOURCES = ("shop/web-0", "shop/web-1", "billing/worker-0")
MALFORMED_SHARE = 0.02
TRACE_SHARE = 0.05
MESSAGES = (
    ("INFO", "order {number} placed by {email}"),
    ("INFO", "session of {address} opened"),
    ("WARN", "retry {number} of payment with card {card}"),
    ("DEBUG", "cache hit for key user:{number}"),
    ("ERROR", "payment {number} failed for {email}"),
)
TRACE = (
    "Traceback (most recent call last):",
    '  File "/srv/shop/pay.py", line 88, in charge',
    "    bank.charge(card)",
    "TimeoutError: the bank did not answer",
)


def records(seed: int, start: int, per_second: float) -> Iterator[Generated]:
    """Without end, about `per_second` lines for each second from `start` on. The key is the file that a line is of."""
    chance = random.Random(seed)
    moment = float(start)
    for number in itertools.count():
        moment += chance.expovariate(per_second / 1000)
        source = chance.choice(SOURCES)
        for line in _entry(chance, number, int(moment)):
            yield Generated(TOPIC, source, line.encode(), int(moment))


def _entry(chance: random.Random, number: int, moment: int) -> list[str]:
    """One entry: a line, or a line and its stack trace; or something that is no entry at all."""
    if chance.random() < MALFORMED_SHARE:
        return [f"%%% {number} disk quota exceeded"]
    time = datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    level, text = chance.choice(MESSAGES)
    filled = text.format(
        number=number,
        email=f"user{chance.randrange(1000)}@example.com",
        address=f"10.0.{chance.randrange(256)}.{chance.randrange(256)}",
        card=f"4000 1234 5678 {chance.randrange(10_000):04d}",
    )
    trace = TRACE if level == "ERROR" or chance.random() < TRACE_SHARE else ()
    return [f"{time} {level} {filled}", *trace]
