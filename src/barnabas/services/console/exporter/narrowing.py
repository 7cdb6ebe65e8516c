"""What is known, without what a reader may not describe. Pure."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from barnabas.client.status import STATUS_TOPIC
from barnabas.services.console.exporter.known import Known


def narrowed(known: Known, topics: Set[str], groups: Set[str]) -> Known:
    snapshot = known.snapshot
    seen = msgspec.structs.replace(
        snapshot,
        topics={name: topic for name, topic in snapshot.topics.items() if name in topics},
        groups={name: group.within(topics) for name, group in snapshot.groups.items() if name in groups},
    )
    return known._replace(snapshot=seen, statuses=known.statuses if STATUS_TOPIC in topics else ())
