"""Share groups (KIP-932): membership and assignment; the state of records is in `barnabas.share`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.groups.share.group import described as described
    from barnabas.groups.share.heartbeats import ShareHeartbeatResult as ShareHeartbeatResult
    from barnabas.groups.share.heartbeats import check_heartbeat as check_heartbeat
    from barnabas.groups.share.state_lifecycle import Outcomes as Outcomes
    from barnabas.groups.share.state_lifecycle import ShareStates as ShareStates
    from barnabas.groups.share.state_lifecycle import keys_of as keys_of
    from barnabas.groups.share.state_partitions import NamedPartitions as NamedPartitions
    from barnabas.groups.share.state_partitions import Partitions as Partitions
else:
    __getattr__ = lazy_exports(__name__)
