"""syslog messages and statsd lines: extreme, damaged, in frames and datagrams of any size."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.fuzz.ports.bodies import Bodies
from tests.fuzz.ports.process import Case

LARGEST = 300_000
_HEAD_5424 = b"<165>1 2026-11-18T01:00:00.000Z host app 1 id "
_SYSLOG: list[Callable[[int], bytes]] = [
    lambda size: _HEAD_5424 + b"[" + b' k="v"' * (size // 6) + b"] text",
    lambda size: _HEAD_5424 + b"[a]" * (size // 3),
    lambda size: _HEAD_5424 + b'[a k="' + b"\\]" * (size // 2) + b'"]',
    lambda size: b"<13>Nov 18 01:00:00 host " + b"tag[" * (size // 4) + b": text",
    lambda size: b"<13>" + b" " * size,
    lambda size: b"<" + b"9" * size + b">1 - - - - - -",
    lambda size: b"<13>1 9999-99-99T99:99:99.999999999999Z - - - - " + b"\xff" * size,
    lambda size: b"\xef\xbb\xbf" * (size // 3),
    lambda size: b"<13>1 - " + b"h" * size + b" - - - - text",
]
_STATSD: list[Callable[[int], bytes]] = [
    lambda size: b"\n".join(b"series%d:1|c" % number for number in range(size // 12 + 1)),
    lambda size: b"a" * size + b":1|c",
    lambda size: b"a:1|c|#" + b",".join(b"t%d:v" % number for number in range(size // 7 + 1)),
    lambda size: b"a" + b":1" * (size // 2) + b"|ms",
    lambda size: b"\n".join(b"s:%d|s" % number for number in range(size // 6 + 1)),
    lambda size: b"a:" + b"9" * size + b"|g",
    lambda size: b"a:1e999|g\na:nan|ms\na:-inf|c\na:1|c|@0\na:1|c|@1e-300",
    lambda size: b"a:1|h|@" + b"0" * size + b"1",
    lambda size: b"\0:\0|\0\n" * (size // 6),
    lambda size: b"\n".join(b"%b:1|ms" % (b"n" * 100 + b"%d" % number) for number in range(size // 110 + 1)),
]


class Lines:
    def __init__(self, port: str, source: Random) -> None:
        self._source = source
        self._bodies = Bodies(source)
        self._kinds = _SYSLOG if port == "syslog" else _STATSD

    def case(self) -> Case:
        count = self._source.choice((1, 1, 20))
        messages = [
            self._source.choice(self._kinds)(self._bodies.size(LARGEST // count)) for _ in range(count)
        ]
        how = self._source.random()
        if how < 0.3:
            return Case("datagrams", messages, is_answered=False, by_datagrams=True)
        if how < 0.5:
            return Case("counted messages", [b"".join(map(self._counted, messages))], is_answered=False)
        if how < 0.6:
            complete = b"\n".join(messages)[:2000]
            return Case(
                "slow lines",
                [complete[at : at + 100] for at in range(0, len(complete), 100)],
                is_answered=False,
            )
        end = self._source.choice((b"\n", b"\n", b"", b"\0"))
        return Case("lines", [b"\n".join(messages) + end], is_answered=False)

    def _counted(self, message: bytes) -> bytes:
        count = self._source.choice(
            (b"%d" % len(message),) * 5 + (b"9" * 300, b"0", b"-1", b"%d" % (len(message) * 2))
        )
        return count + b" " + message
