"""Startup warnings about listeners: unauthenticated access from other hosts, and unreachable advertised addresses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING

from barnabas.common.addresses import is_loopback
from barnabas.common.safe_logging import safe_logger

if TYPE_CHECKING:
    from barnabas.network.listener import Listener


# -- Advertised addresses ------------------------------------------------------------------------------
# `advertised.listeners` is the most common configuration mistake. A broker does not know which name a client has
# dialled, but some mistakes are visible.

_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


def unreachable_reason(advertised: str, peer: str, *, is_set: bool) -> str | None:
    """Return why a client cannot reach this broker at the advertised address, or None if unknown."""
    if advertised == "localhost" or advertised.startswith("127.") or advertised == "::1":
        is_elsewhere = not (peer.startswith("127.") or peer == "::1")
        return "which is its own host" if is_elsewhere and is_set else None
    try:
        behind_nat = not is_set and ip_address(peer).is_global and ip_address(advertised).is_private
    except ValueError:  # an address with a zone, as fe80::1%eth0
        return None
    return "which is an address behind NAT" if behind_nat else None


def warn_if_unreachable(listener: Listener) -> None:
    """Log the setting to change when clients probably use another address than the advertised one."""
    wildcard = listener.host in ("", "0.0.0.0", "::")
    if listener.advertised_address is None and wildcard and any(map(os.path.exists, _CONTAINER_MARKS)):
        log.warning(
            "%r runs in a container and advertised.listeners is not set: clients outside of it get the "
            "container's own address. If they cannot reach that, set advertised.listeners=%s://HOST:PORT to "
            "the address that they dial.",
            listener,
            listener.name,
        )


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
