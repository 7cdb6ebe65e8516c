"""Tables of extreme values, for the fast generator and for hypothesis."""

from __future__ import annotations

from random import Random
from typing import Any

RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def _extreme_integers(low: int, high: int) -> tuple[int, ...]:
    powers = {sign * 2**bits + off for bits in range(1, 64) for sign in (-1, 1) for off in (-1, 0, 1)}
    wanted = {0, 1, -1, -2, 3, low, low + 1, high, high - 1} | powers
    return tuple(sorted(number for number in wanted if low <= number <= high))


INTEGERS = {kind: _extreme_integers(*limits) for kind, limits in RANGES.items()}
# Zero, one and the ends are drawn as often as all the powers together.
ENDS = {kind: (0, 0, 1, -1 if low < 0 else 2, low, high) for kind, (low, high) in RANGES.items()}

NAMES = (
    "", " ", ".", "..", "a", "-", "_", "new", "__consumer_offsets", "__transaction_state", "__share_group_state",
    "__cluster_metadata", "../../../etc/passwd", "/etc/passwd", "a/b", "a\x00b", "two\nlines", "\r\x1b[2J", "\x7f",
    "%s%s%n", "{0.__class__}", "${env:HOME}", "${file:/etc/passwd:x}", "a" * 249, "a" * 250, "b" * 4096, "c" * 32767,
    "é" * 200, "\u202e\ufeff", "\U0001f4a5" * 60, "-1", "0", "1", "2147483648", "NaN", "null", "*", "a.b", "a_b",
    "consumer", "range", "cooperative-sticky", "uniform", "classic", "share", "Stable", "Empty",
)  # fmt: skip

PATTERNS = (
    "", ".*", "(a|aa)*b", "(a+)+$", "(x*)*y", "a{1000}", "(a{100}){100}", "(((a{10}){10}){10}){10}", "[", "(?P<", "\\1",
    "(?=a)", "\\C", "a|" * 5000, "(" * 500 + ")" * 500, "[\\x{0}-\\x{10ffff}]{500}", "\\pL+" * 500, "known", "^$", "\n",
)  # fmt: skip

BYTES = (
    b"",
    b"\x00",
    b"\xff" * 4,
    b"\x00\x01",
    b"\x7f\xff\xff\xff",
    b"\x00" * 64,
    b"x" * 5000,
    b"\x00\x03" + b"\xff" * 40,
)

CONFIG_NAMES = (
    "retention.ms", "retention.bytes", "segment.bytes", "segment.ms", "max.message.bytes", "cleanup.policy",
    "compression.type", "min.insync.replicas", "message.timestamp.type", "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms", "flush.messages", "index.interval.bytes", "segment.index.bytes",
    "delete.retention.ms", "leader.replication.throttled.replicas", "share.auto.offset.reset",
    "share.delivery.count.limit", "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms",
    "streams.num.standby.replicas", "no.such.setting", "",
)  # fmt: skip

CONFIG_VALUES = (
    "", "0", "-1", "1", "1000", "2147483647", "9223372036854775807", "-9223372036854775808", "1e400", "NaN", "1" * 5000,
    "delete", "compact", "delete,compact", "compact," * 3000, "zstd", "LogAppendTime", "earliest", "true",
    "0:1," * 5000, "*", "by_duration:PT" + "9" * 400 + "S", "é", "a\nb",
)  # fmt: skip

# Elements of a message: mostly few, seldom as many as a request of a megabyte has.
BUDGETS = ((30, 90.0), (300, 8.5), (5_000, 1.4), (60_000, 0.1))


def integer(kind: str, source: Random) -> int:
    how = source.random()
    if how < 0.6:
        return source.choice(ENDS[kind])
    if how < 0.9:
        return source.choice(INTEGERS[kind])
    return source.randint(*RANGES[kind])


def scalar(kind: str, source: Random) -> Any:
    """A value of a wire type for which nothing better is known."""
    if kind in RANGES:
        return integer(kind, source)
    if kind == "boolean":
        return source.random() < 0.5
    if kind == "float64":
        return source.choice((0.0, -1.0, 1e308, float("inf"), float("nan")))
    if kind == "uuid":
        return source.choice(
            (bytes(16), b"\xff" * 16, bytes(15) + b"\x01", source.getrandbits(128).to_bytes(16, "big"))
        )
    if kind == "string":
        return source.choice(NAMES)
    return source.choice(BYTES)


def budget(source: Random) -> int:
    chosen = source.choices(BUDGETS, [weight for _, weight in BUDGETS])
    return chosen[0][0]
