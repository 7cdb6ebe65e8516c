"""Who can reach a listener, and what that means while nobody is asked who he is: said at every start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.log_lines import safe_logger

if TYPE_CHECKING:
    from barnabas.server.listener import Listener

log = safe_logger(__name__)


def warn_if_exposed(listeners: Sequence[Listener]) -> None:
    """Listeners on loopback are left alone: those on this machine are trusted."""
    for listener in listeners:
        if _is_exposed(listener):
            log.warning(
                "%r can be reached from other machines and does not ask who connects: everybody who reaches it can "
                "read, change and delete everything. Listen on 127.0.0.1 (listeners=%s://127.0.0.1:%d), or let a "
                "firewall or a private network keep others away. TLS and SASL for clients are coming.",
                *(listener, listener.name, listener.port),
            )
    _warn_if_shared(listeners)


def _is_exposed(listener: Listener) -> bool:
    return not listener.authenticates and not listener.is_loopback


def _warn_if_shared(listeners: Sequence[Listener]) -> None:
    """A cluster whose clients connect where its brokers do cannot tell them apart."""
    if len(listeners) != 1 or not listeners[0].serves_brokers or not _is_exposed(listeners[0]):
        return
    log.warning(
        "%r is the only listener of this broker: whoever connects there can act as a broker of the cluster (fetch as a "
        "replica, change who is in sync, write transaction markers). Give the brokers a listener that only they can "
        "reach: add one to listeners, and name it in inter.broker.listener.name.",
        listeners[0],
    )
