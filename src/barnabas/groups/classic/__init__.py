"""Classic groups: membership by JoinGroup and SyncGroup, assignment by the leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.groups.classic.group import ClassicGroup as ClassicGroup
    from barnabas.groups.classic.group import ClassicGroupState as ClassicGroupState
    from barnabas.groups.classic.member import ClassicGroupMember as ClassicGroupMember
    from barnabas.groups.classic.member import JoinRequest as JoinRequest
else:
    __getattr__ = lazy_exports(__name__)
