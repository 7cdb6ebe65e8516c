"""Which addresses a token may be fetched from, and an alarm be sent to.

The address stands in a setting, and with it goes a secret, or what happens in a company. Plain http would show that to
the network, and `file:` would make any file a token, so https it is, or http to this machine. Who owns the process may
allow others by name, as with Kafka's `org.apache.kafka.sasl.oauthbearer.allowed.urls`: in an environment variable, not
in a setting.
"""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

VARIABLE = "BARNABAS_OAUTHBEARER_ALLOWED_URLS"
WEBHOOKS_VARIABLE = "BARNABAS_WEBHOOK_ALLOWED_URLS"


def problem_with(url: str, variable: str = VARIABLE) -> str | None:
    """Why nothing is sent there. Addresses in the environment variable are allowed whatever they are."""
    if url and url in (allowed.strip() for allowed in os.environ.get(variable, "").split(",")):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return "is no address"
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
