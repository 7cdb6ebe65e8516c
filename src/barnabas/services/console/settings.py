"""Settings of a console. Without a file: one cluster, no login, on loopback."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.client import Address
from barnabas.client.schemas import NO_ACCOUNT, RegistryAccount
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.security.tls import TlsSettings
from barnabas.services.console.access.model import AccessSettings
from barnabas.web import WebLimits

DEFAULT_LISTEN = Address("127.0.0.1", 8090)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    name: str
    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    registry: RegistryAccount = NO_ACCOUNT
    """The schema registry; without a URL it is the one that the cluster runs, if any."""
    logs: tuple[str, ...] = ()
    """Topics that contain log lines."""
    logs_hours: float = 24.0
    logs_gib: float = 4.0
    """Retention of log lines: hours, and size in GiB."""
    registry_by_user: bool = False
    """The registry is next to the broker, and gets the password of the user's connection: it checks it with brokers."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    clusters: tuple[ClusterSettings, ...]
    listen: Address = DEFAULT_LISTEN
    data: Path = field(default_factory=lambda: default_data())
    """Directory of curves, logs and audit log; everything except the audit log may be deleted."""
    read_only: bool = False
    tls: TlsSettings | None = None
    """Enables HTTPS."""
    url: str = ""
    """External URL, if it differs from the listen address."""
    access: AccessSettings = field(default_factory=AccessSettings)
    publish_metrics: str = ""
    """Topic for metrics in each cluster; empty: metrics are not published."""
    silenced_alarms: frozenset[str] = frozenset()
    """Names of alarms that are silenced for all users."""
    http: WebLimits = field(default_factory=WebLimits)


def default_data() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "barnabas-console"
