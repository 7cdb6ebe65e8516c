"""Group coordinator: membership and committed offsets as state machines over `__consumer_offsets`, without I/O.

`GroupCoordinator` finds the shard of a group and runs requests on it; `GroupShard` holds the groups and offsets of one
partition. `classic/`, `consumer/`, `share/` and `streams/` are the group types, `assignors/` the server-side assignors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.groups.coordinator import GroupCoordinator as GroupCoordinator
    from barnabas.groups.group import ClientInfo as ClientInfo
    from barnabas.groups.group import Committer as Committer
    from barnabas.groups.group import Group as Group
    from barnabas.groups.group import sees_all as sees_all
    from barnabas.groups.metrics import declare_group_metrics as declare_group_metrics
    from barnabas.groups.modern import JOINING as JOINING
    from barnabas.groups.modern import ModernGroup as ModernGroup
    from barnabas.groups.offsets import NO_EXPIRY as NO_EXPIRY
    from barnabas.groups.offsets import Committed as Committed
    from barnabas.groups.offsets import Offsets as Offsets
    from barnabas.groups.offsets import OffsetStore as OffsetStore
    from barnabas.groups.records import offset_record as offset_record
    from barnabas.groups.results import commit_error as commit_error
    from barnabas.groups.settings import GroupConfigs as GroupConfigs
    from barnabas.groups.settings import GroupSettings as GroupSettings
    from barnabas.groups.settings import group_settings as group_settings
    from barnabas.groups.shard import GroupShard as GroupShard
    from barnabas.groups.topics import ImageTopics as ImageTopics
else:
    __getattr__ = lazy_exports(__name__)
