"""Log lines of several applications, generated from a seed, with stack traces, personal data and broken lines.

Covers all cases that the template handles: times and levels in several formats, files without a name, lines of
another process within a stack trace, invalid UTF-8, tombstones and impossible times.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime

from barnabas.pipelines.library.records import Generated

TOPIC = "logs.topic"
FORMS = {
    "shop/web-0": "{time:%Y-%m-%dT%H:%M:%S}.{ms:03d}Z {level} {text}",
    "shop/web-1": "{time:%Y-%m-%d %H:%M:%S},{ms:03d} [main] {level}  {text}",
    "billing/worker-0": "{time:%Y-%m-%d %H:%M:%S},{ms:03d} - billing.pay - {level} - {text}",
    None: "[{time:%Y-%m-%dT%H:%M:%S}+00:00] [{level}] {text}",
}
"""How the applications write an entry, by the key of their lines: what a line is of. Some shippers give none."""

MESSAGES = (
    ("INFO", "order {number} placed by {email}"),
    ("INFO", "session of {address} opened"),
    ("WARN", "retry {number} of payment with card {card}"),
    ("WARNING", "payment {number} took 4 s"),
    ("DEBUG", "cache hit for key user:{number}"),
    ("TRACE", "entering checkout of order {number}"),
    ("ERROR", "payment {number} failed for {email}"),
    ("FATAL", "out of memory after order {number}"),
    ("CRITICAL", "the ledger of {email} does not add up"),
)
TRACES = (
    (
        "Traceback (most recent call last):",
        '  File "/srv/shop/pay.py", line 88, in charge',
        "    bank.charge(card)",
        "TimeoutError: the bank did not answer {email}",
    ),
    (
        "com.shop.PaymentException: card {card} was refused",
        "\tat com.shop.Pay.charge(Pay.java:88)",
        "",
        "Caused by: java.net.SocketTimeoutException",
        "\t... 12 more",
    ),
    ("  request = {{", "  'from': '{address}',", *(f"  'item {item}': 1," for item in range(12)), "}}"),
)
STRAYS = (
    b"%%% disk quota exceeded",
    b"restarted by hand, mail to root@example.com if it hangs",
    b"\xff\xfe\x80 caf\xe9 \x00",
    None,  # a tombstone
)
IMPOSSIBLE_TIME = "2026-02-30T25:61:00Z ERROR the clock of this host is broken"
TRACED = ("ERROR", "FATAL", "CRITICAL")
TRACE_SHARE = 0.05  # of the other levels
STRAY_SHARE = 0.04
IMPOSSIBLE_SHARE = 0.01


def records(seed: int, start: int, per_second: float) -> Iterator[Generated]:
    """Without end, about `per_second` entries for each second from `start` on."""
    chance = random.Random(seed)
    moment = float(start)
    for source in FORMS:  # the shipper has begun in the middle of a trace
        yield Generated(TOPIC, source, TRACES[1][1].encode(), start)
    for number in itertools.count():
        moment += chance.expovariate(per_second / 1000)
        source = chance.choice(tuple(FORMS))
        for line in _lines(chance, source, number, int(moment)):
            yield Generated(TOPIC, source, line, int(moment))


def _lines(chance: random.Random, source: str | None, number: int, moment: int) -> list[bytes | None]:
    """One entry, and perhaps something strange somewhere in it."""
    lines: list[bytes | None] = [line.encode() for line in _entry(chance, source, number, moment)]
    if chance.random() < STRAY_SHARE:
        lines.insert(chance.randrange(len(lines) + 1), chance.choice(STRAYS))
    return lines


def _entry(chance: random.Random, source: str | None, number: int, moment: int) -> list[str]:
    level, text = chance.choice(MESSAGES)
    trace = chance.choice(TRACES) if level in TRACED or chance.random() < TRACE_SHARE else ()
    facts = {
        "number": number,
        "email": f"user{chance.randrange(1000)}@example.com",
        "address": f"10.0.{chance.randrange(256)}.{chance.randrange(256)}",
        "card": f"4000 1234 5678 {chance.randrange(10_000):04d}",
    }
    first, *rest = (part.format(**facts) for part in (text, *trace))
    if chance.random() < IMPOSSIBLE_SHARE:
        return [IMPOSSIBLE_TIME, *rest]
    time = datetime.fromtimestamp(moment / 1000, UTC)
    return [FORMS[source].format(time=time, ms=moment % 1000, level=level, text=first), *rest]
