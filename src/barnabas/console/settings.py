"""How a console is set up. Without a file: one cluster, no login, on loopback."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.client.addresses import Address
from barnabas.client.security.settings import PLAINTEXT, Security

DEFAULT_LISTEN = Address("127.0.0.1", 8090)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    name: str
    bootstrap: str
    security: Security = PLAINTEXT
    registry: str = ""
    """The URL of its schema registry."""
    logs: tuple[str, ...] = ()
    """Topics with lines of logs."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    clusters: tuple[ClusterSettings, ...]
    listen: Address = DEFAULT_LISTEN
    data: Path = field(default_factory=lambda: default_data())
    """Curves, logs and audit; everything in it but the audit can be removed."""
    read_only: bool = False


def default_data() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "barnabas-console"
