"""Settings of a console. Without a file: one cluster, no login, on loopback."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.client import Address
from barnabas.client.security import NO_PASSWORD, PLAINTEXT, ClientSecurity
from barnabas.security.authn import Secret
from barnabas.security.tls import TlsSettings
from barnabas.services.console.access.model import AccessSettings
from barnabas.web import WebLimits

DEFAULT_LISTEN = Address("127.0.0.1", 8090)


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    user: str = ""
    password: Secret = NO_PASSWORD
    token: Secret = NO_PASSWORD


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    name: str
    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    registry: str = ""
    """The URL of its schema registry."""
    registry_login: RegistryLogin = RegistryLogin()
    logs: tuple[str, ...] = ()
    """Topics with lines of logs."""
    logs_hours: float = 24.0
    logs_gib: float = 4.0
    """How long lines are kept, and how many gigabytes (of 1024³) of them."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    clusters: tuple[ClusterSettings, ...]
    listen: Address = DEFAULT_LISTEN
    data: Path = field(default_factory=lambda: default_data())
    """Curves, logs and audit; everything in it but the audit can be removed."""
    read_only: bool = False
    tls: TlsSettings | None = None
    """By https."""
    url: str = ""
    """Under which browsers reach it, if that is not where it listens."""
    access: AccessSettings = field(default_factory=AccessSettings)
    publish_metrics: str = ""
    """The topic that metrics are written to, in each cluster; none if it is empty."""
    silenced_alarms: frozenset[str] = frozenset()
    """Names of alarms that are silenced for all users."""
    http: WebLimits = field(default_factory=WebLimits)


def default_data() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "barnabas-console"
