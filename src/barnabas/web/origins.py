"""Rejects HTTP requests that pages of other sites make a browser send.

A page must not change anything here (CSRF), nor read responses through a host name that resolves to this machine (DNS
rebinding). Both are detected by headers that pages cannot set.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from barnabas.common.addresses import is_loopback

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def is_cross_site(method: str, headers: Mapping[str, str]) -> bool:
    """True if a page of another site sent this request to change something.

    Decided by Sec-Fetch-Site, which current browsers send, else by Origin, as in Go's CrossOriginProtection. A request
    with neither header does not come from a current browser, and is accepted.
    """
    if method in SAFE_METHODS:
        return False
    site = headers.get("sec-fetch-site", "")
    if site:
        return site not in ("same-origin", "none")
    return has_foreign_origin(headers)


def has_foreign_origin(headers: Mapping[str, str]) -> bool:
    """True if Origin names another host than Host."""
    origin = headers.get("origin", "")
    return bool(origin) and _host_of(origin) != headers.get("host", "").lower()


def is_loopback_host(host: str) -> bool:
    """True if the Host header is localhost or a loopback address. Any port is accepted: ssh may forward it."""
    name = host_name(host)
    return name.rstrip(".") == "localhost" or is_loopback(name)


def is_foreign(method: str, headers: Mapping[str, str], *, is_local: bool) -> bool:
    """True if another site's page sent this request or, on loopback (`is_local`), if Host is not a loopback name."""
    if is_cross_site(method, headers) or has_foreign_origin(headers):
        return True
    has_host = "host" in headers  # browsers always send it
    return is_local and has_host and not is_loopback_host(headers["host"])


def host_name(host: str) -> str:
    """Name in a Host header, without the port; empty if the header is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018  (ValueError if it is not a number)
    except ValueError:
        return ""
    return parts.hostname or ""


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
