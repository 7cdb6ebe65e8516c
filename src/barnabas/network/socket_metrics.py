"""What monitoring sees of sockets: connections, logins, TLS, memory for requests, text of clients that is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from barnabas.common import regex as patterns
from barnabas.common.safe_logging import line_limit, plain_lines
from barnabas.metrics import catalogue, network_catalogue
from barnabas.metrics.registry import Registry, Sample
from barnabas.network.listener import Listener
from barnabas.network.socket_server import SocketServer

Logins = Mapping[tuple[bool, bool], Counter[str]]
"""By whether they succeeded and whether the client had authenticated before; then by listener."""


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
