"""Classic groups: membership by JoinGroup and SyncGroup, assignment by the leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.groups.classic.group import ClassicGroup, ClassicGroupState
    from barnabas.groups.classic.member import ClassicGroupMember
    from barnabas.groups.classic.membership import JoinRequest
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "group": "ClassicGroup ClassicGroupState",
            "member": "ClassicGroupMember",
            "membership": "JoinRequest",
        },
    )

__all__ = ["ClassicGroup", "ClassicGroupMember", "ClassicGroupState", "JoinRequest"]
