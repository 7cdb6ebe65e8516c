"""Share groups (KIP-932): membership and assignment; the state of records is in `barnabas.share`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.groups.share.group import described
    from barnabas.groups.share.heartbeats import check_heartbeat
    from barnabas.groups.share.state_lifecycle import Outcomes, ShareStates, keys_of
    from barnabas.groups.share.state_partitions import NamedPartitions, Partitions
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "group": "described",
            "heartbeats": "check_heartbeat",
            "state_lifecycle": "Outcomes ShareStates keys_of",
            "state_partitions": "NamedPartitions Partitions",
        },
    )

__all__ = [
    "NamedPartitions",
    "Outcomes",
    "Partitions",
    "ShareStates",
    "check_heartbeat",
    "described",
    "keys_of",
]
