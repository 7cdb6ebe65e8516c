"""URLs that tokens may be fetched from and alarms may be sent to.

These URLs come from settings, and requests to them carry secrets or internal data. Plain http would expose those to the
network, and `file:` would turn any local file into a token. So only https is allowed, and http to this machine. The
owner of the process can allow further URLs by name in an environment variable (not in a setting), as with Kafka's
`org.apache.kafka.sasl.oauthbearer.allowed.urls`.
"""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

VARIABLE = "BARNABAS_OAUTHBEARER_ALLOWED_URLS"
WEBHOOKS_VARIABLE = "BARNABAS_WEBHOOK_ALLOWED_URLS"


def problem_with(url: str, variable: str = VARIABLE) -> str | None:
    """Return why the URL is refused, or None if it is allowed. URLs listed in the environment variable always are."""
    if url and url in (allowed.strip() for allowed in os.environ.get(variable, "").split(",")):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return "is not a valid URL"
    if parts.scheme == "https" and host:
        return None
    if parts.scheme == "http" and host:
        return (
            None
            if is_this_machine(host)
            else f"must be https, or http to this machine{_allow(url, variable)}"
        )
    if parts.scheme == "file":
        return f"must not be a file{_allow(url, variable)}"
    return "must be an https address"


def is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _allow(url: str, variable: str) -> str:
    return f" (or allow it with {variable}={url} in the environment)"
