"""What is known of a cluster at one moment: what the sampler saw, and what only the exporter and alarms ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.client.status import Status
from barnabas.services.console.sampling.snapshot import Snapshot

STALE_SECONDS = 60.0
"""Six intervals of the sampler: older figures are not shown as if they were new."""


class Known(NamedTuple):
    snapshot: Snapshot
    age: float = 0.0
    """Of the snapshot, in seconds."""
    members: Mapping[str, int] = {}
    """By group, of those where it is known."""
    statuses: tuple[Status, ...] = ()
    """Of agents, connectors, mirrors and pipelines."""

    @property
    def is_stale(self) -> bool:
        return self.snapshot.is_empty or self.age > STALE_SECONDS
