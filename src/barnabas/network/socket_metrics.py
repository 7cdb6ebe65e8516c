"""Metrics of sockets: connections, logins, TLS, memory for requests, suppressed client text."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from barnabas.common import regex as patterns
from barnabas.common.safe_logging import line_limit, plain_lines
from barnabas.metrics import Registry, Sample, catalogue, network_catalogue
from barnabas.network.listener import Listener
from barnabas.network.socket_server import SocketServer

# -- Loop health: timer lag and idle time

# Often enough to catch a short stall of the loop, rarely enough to cost an idle broker nothing.
INTERVAL = 0.25
WINDOW = 60.0


class LoopMonitor:
    """Measures how late a periodic timer fires: every request waits that long, too."""

    def __init__(
        self,
        registry: Registry,
        was_late: Callable[[float], None] = lambda seconds: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._was_late = was_late
        self._now = monotonic
        self._lag = registry.histogram(network_catalogue.LOOP_LAG).labels()
        self._recent: deque[float] = deque([0.0], maxlen=int(WINDOW / INTERVAL))
        self._idle = 1.0
        self._handle: asyncio.TimerHandle | None = None
        registry.read_by(network_catalogue.LOOP_LAG_MAX, lambda: max(self._recent))
        registry.read_by(network_catalogue.NETWORK_IDLE, lambda: self._idle)
        registry.read_by(network_catalogue.HANDLER_IDLE, lambda: self._idle)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._set_timer()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _set_timer(self) -> None:
        self._started, self._cpu_then = self._now(), time.thread_time()
        self._handle = self._loop.call_later(INTERVAL, self._tick)

    def _tick(self) -> None:
        elapsed = self._now() - self._started
        self.note(elapsed - INTERVAL)
        busy = min((time.thread_time() - self._cpu_then) / elapsed, 1.0) if elapsed > 0 else 0.0
        # A moving average over some ten seconds; Kafka's meters use a minute.
        self._idle += (1.0 - busy - self._idle) * (INTERVAL / 10)
        self._set_timer()

    def note(self, lag: float) -> None:
        lag = max(lag, 0.0)
        self._lag.observe(lag)
        self._recent.append(lag)
        self._was_late(lag)


Logins = Mapping[tuple[bool, bool], Counter[str]]
"""By success and whether the client had authenticated before; then by listener."""


def declare_network_metrics(
    registry: Registry, sockets: SocketServer, logins: Logins, refused_as_broker: Mapping[str, int]
) -> None:

    def by_listener(read: Callable[[str], int]) -> Callable[[], Iterator[Sample]]:
        def samples() -> Iterator[Sample]:
            for listener in sockets.listeners:
                yield Sample("", (("listener", listener.name),), read(listener.name))

        return samples

    connections = sockets.connections
    registry.computed(network_catalogue.CONNECTIONS, by_listener(connections.count_on))
    registry.computed(network_catalogue.STRIMZI_CONNECTIONS, by_listener(connections.count_on))
    registry.computed(
        network_catalogue.CONNECTIONS_OPENED, by_listener(lambda name: connections.opened[name])
    )
    registry.computed(
        network_catalogue.CONNECTIONS_REFUSED, by_listener(lambda name: connections.refused[name])
    )
    registry.computed(network_catalogue.AUTHENTICATED, by_listener(logins[True, False].__getitem__))
    registry.computed(network_catalogue.NOT_AUTHENTICATED, by_listener(logins[False, False].__getitem__))
    registry.computed(network_catalogue.AUTHENTICATED_AGAIN, by_listener(logins[True, True].__getitem__))
    registry.computed(network_catalogue.NOT_AUTHENTICATED_AGAIN, by_listener(logins[False, True].__getitem__))
    registry.computed(network_catalogue.CONNECTIONS_CLOSED, lambda: _by("reason", connections.closed))
    registry.computed(network_catalogue.TLS_HANDSHAKES, lambda: _by("outcome", sockets.tls.handshakes.ended))
    registry.computed(
        network_catalogue.TLS_EXPIRY,
        lambda: (
            Sample("", (("listener", each.wanted.listener),), each.certificate.expires)
            for each in sockets.tls
        ),
    )
    registry.computed(network_catalogue.CONNECTIONS_THROTTLED, lambda: _throttled(sockets.listeners))
    registry.read_by(network_catalogue.MEMORY_WAITING, lambda: sockets.memory.waiting)
    registry.computed(
        network_catalogue.REFUSED_AS_BROKER,
        lambda: (Sample("", (("request", name),), count) for name, count in refused_as_broker.items()),
    )
    registry.read_by(catalogue.LOG_LINES_LEFT_OUT, lambda: line_limit.total_left_out)
    registry.read_by(catalogue.LOG_LINES_CUT, lambda: plain_lines.total_cut)
    registry.read_by(catalogue.PATTERNS_REFUSED, lambda: patterns.limits.refused)
    registry.read_by(network_catalogue.MEMORY_USED, lambda: sockets.memory.used)
    registry.read_by(
        network_catalogue.MEMORY_AVAILABLE, lambda: max(sockets.memory.size - sockets.memory.used, 0)
    )


def _by(label: str, counts: Mapping[str, int]) -> Iterator[Sample]:
    for value, count in sorted(counts.items()):
        yield Sample("", ((label, value),), count)


def _throttled(listeners: Iterable[Listener]) -> Iterator[Sample]:
    for listener in listeners:
        for limit, count in sorted(listener.throttled.items()):
            yield Sample("", (("listener", listener.name), ("limit", limit)), count)
