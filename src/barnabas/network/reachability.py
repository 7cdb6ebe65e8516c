"""Warnings about advertised addresses that clients cannot reach.

`advertised.listeners` is the most common configuration mistake. A broker does not know which name a client
has dialled, but some mistakes are visible.
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import TYPE_CHECKING

from barnabas.common.safe_logging import safe_logger

if TYPE_CHECKING:
    from barnabas.network.listener import Listener

log = safe_logger(__name__)

_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


def why_unreachable(advertised: str, peer: str, *, is_set: bool) -> str | None:
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
