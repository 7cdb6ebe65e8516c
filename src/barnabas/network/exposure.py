"""Startup warnings about listeners that accept unauthenticated clients from other hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.common.addresses import is_loopback
from barnabas.common.safe_logging import safe_logger

if TYPE_CHECKING:
    from barnabas.network.listener import Listener

log = safe_logger(__name__)


def warn_if_exposed(listeners: Sequence[Listener]) -> None:
    """Warn about each exposed listener; loopback listeners are trusted."""
    for listener in listeners:
        if _is_exposed(listener):
            log.warning(
                "%r is reachable from other hosts and does not authenticate: every client that reaches it can "
                "read, change and delete everything. Listen on 127.0.0.1 (listeners=%s://127.0.0.1:%d), or let a "
                "firewall or a private network keep others away, or have clients authenticate (SASL_SSL, or SSL with "
                "ssl.client.auth=required, see docs/security.md).",
                *(listener, listener.name, listener.port),
            )
    _warn_if_shared(listeners)


def warn_if_metrics_exposed(address: str, *, is_authenticated: bool, is_encrypted: bool) -> None:
    """The same for `barnabas.metrics.listen`, which exposes names of topics, groups and clients."""
    host = address.rpartition(":")[0].strip("[]")
    if not host or is_loopback(host) or (is_authenticated and is_encrypted):
        return
    if is_authenticated:
        what, remedy = "passwords and tokens are sent unencrypted", "Set barnabas.metrics.tls.listener"
    else:
        what = "every client can read the names of topics, groups and clients"
        remedy = "Set barnabas.metrics.users.file or barnabas.metrics.tokens.file"
    log.warning(
        "barnabas.metrics.listen=%s is reachable from other hosts, and %s. %s, or listen on 127.0.0.1.",
        *(address, what, remedy),
    )


def _is_exposed(listener: Listener) -> bool:
    return not (listener.authenticates or listener.requires_certificate or listener.is_loopback)


def _warn_if_shared(listeners: Sequence[Listener]) -> None:
    """Warn if clients connect to the inter-broker listener: they cannot be distinguished from brokers."""
    if len(listeners) != 1 or not listeners[0].serves_brokers or not _is_exposed(listeners[0]):
        return
    log.warning(
        "%r is the only listener of this broker: a client that connects there can act as a broker of the cluster "
        "(fetch as a replica, change who is in sync, write transaction markers). Give the brokers a listener that "
        "only they can reach: add one to listeners, and name it in inter.broker.listener.name.",
        listeners[0],
    )
