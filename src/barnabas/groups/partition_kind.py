"""Common replay of consumer and share groups: records of epochs, members and their partitions.

The record types of both have separate keys and values with the same fields.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, TypeVar

from barnabas.groups.manager import GroupManager
from barnabas.groups.modern import NO_ASSIGNMENT_YET, ModernGroup, ModernMember, partitions_of

G = TypeVar("G", bound=ModernGroup[Any, Any])


class PartitionGroupKind(GroupManager[G]):
    """Replay functions take the key of a record and its value, or None for a tombstone."""

    epoch_without_target: ClassVar[int]
    """Assignment epoch of a group whose target was deleted."""

    @abstractmethod
    def subscribed(self, group: G, member_id: str, value: Any) -> ModernMember:
        """The member, existing or new, after a record of its subscription."""

    def unloaded(self, group: G) -> None:
        """Nothing to do: no request is parked, every heartbeat is answered immediately."""

    def replay_epoch(self, key: Any, value: Any) -> None:
        if value is None:
            self.forget(key.group_id)
        elif group := self.for_replay(key.group_id, create=True):
            group.set_epoch(value.epoch, value.metadata_hash)

    def replay_member(self, key: Any, value: Any) -> None:
        group = self.for_replay(key.group_id, create=value is not None)
        if group is None:
            return
        if value is None:
            group.remove(key.member_id)
        else:
            group.store(self.subscribed(group, key.member_id, value))

    def replay_target_epoch(self, key: Any, value: Any) -> None:
        group = self.for_replay(key.group_id, create=value is not None)
        if group is None:
            return
        if value is None:
            group.set_assignment_epoch(self.epoch_without_target, NO_ASSIGNMENT_YET)
        else:
            group.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)

    def replay_target(self, key: Any, value: Any) -> None:
        group = self.for_replay(key.group_id, create=value is not None)
        if group is None:
            return
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = {
                one.topic_id: partitions_of(one.partitions) for one in value.topic_partitions
            }
