"""Which requests come from the console's own pages, and which are meant for this console at all.

A page of somebody else must not make its reader's browser change something here (CSRF), nor read the console through a
name that it points at this machine (DNS rebinding). Both are decided by headers that pages cannot set.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def is_cross_site(method: str, headers: Mapping[str, str]) -> bool:
    """As Go's CrossOriginProtection: by Sec-Fetch-Site, which browsers of the last years send, else by Origin.

    A request with neither comes from no browser, or from one too old for it, and then not from another site.
    """
    if method in SAFE_METHODS:
        return False
    site = headers.get("sec-fetch-site", "")
    if site:
        return site not in ("same-origin", "none")
    origin = headers.get("origin", "")
    return bool(origin) and _host_of(origin) != headers.get("host", "").lower()


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def is_of_this_machine(host: str) -> bool:
    """Is this Host header an address of loopback, or localhost? With any port: it may be forwarded by ssh."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        urlsplit(f"//{host}").port  # noqa: B018  (ValueError if it is no number)
    except ValueError:
        return False
    if name.rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
