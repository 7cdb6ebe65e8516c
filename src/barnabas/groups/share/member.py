"""A member of a share group: its metadata and its partitions."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

from barnabas.groups.group import ClientInfo
from barnabas.groups.modern import JOINING, Assignment

NO_EPOCH = -1


class ShareMemberState(IntEnum):
    """The numbers are those of the records. Members never wait for each other, so one state is used."""

    STABLE = 1
    UNKNOWN = 127


class ShareMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    rack_id: str | None = None
    client: ClientInfo = ClientInfo("", "")
    subscribed_topic_names: frozenset[str] = frozenset()
    member_epoch: int = JOINING
    previous_member_epoch: int = NO_EPOCH
    assigned: Assignment = {}

    @property
    def instance_id(self) -> str | None:
        """Always None: share groups have no static members."""
        return None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.member_epoch == assignment_epoch

    def changed(self, **fields: Any) -> ShareMember:
        """A copy with these fields, or itself if nothing differs."""
        different = {name: value for name, value in fields.items() if getattr(self, name) != value}
        return msgspec.structs.replace(self, **different) if different else self
