"""Group coordinator: membership and committed offsets as state machines over `__consumer_offsets`, without I/O.

`GroupCoordinator` finds the shard of a group and runs requests on it; `GroupShard` holds the groups and offsets of one
partition. `classic/`, `consumer/`, `share/` and `streams/` are the group types, `assignors/` the server-side assignors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.groups.coordinator import GroupCoordinator
    from barnabas.groups.group import ClientInfo, Committer, Group, sees_all
    from barnabas.groups.metrics import declare_group_metrics
    from barnabas.groups.modern import JOINING, ModernGroup
    from barnabas.groups.offsets import NO_EXPIRY, Committed, Offsets, OffsetStore
    from barnabas.groups.records import offset_record
    from barnabas.groups.settings import GroupConfigs, GroupSettings, group_settings
    from barnabas.groups.shard import GroupShard
    from barnabas.groups.step import CoordinatorResult, Respond, group_error, join_error
    from barnabas.groups.topics import ImageTopics
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "coordinator": "GroupCoordinator",
            "group": "ClientInfo Committer Group sees_all",
            "metrics": "declare_group_metrics",
            "modern": "JOINING ModernGroup",
            "offsets": "Committed NO_EXPIRY OffsetStore Offsets",
            "records": "offset_record",
            "settings": "GroupConfigs GroupSettings group_settings",
            "shard": "GroupShard",
            "step": "CoordinatorResult Respond group_error join_error",
            "topics": "ImageTopics",
        },
    )

__all__ = [
    "JOINING",
    "NO_EXPIRY",
    "ClientInfo",
    "Committed",
    "Committer",
    "CoordinatorResult",
    "Group",
    "GroupConfigs",
    "GroupCoordinator",
    "GroupSettings",
    "GroupShard",
    "ImageTopics",
    "ModernGroup",
    "OffsetStore",
    "Offsets",
    "Respond",
    "declare_group_metrics",
    "group_error",
    "group_settings",
    "join_error",
    "offset_record",
    "sees_all",
]
