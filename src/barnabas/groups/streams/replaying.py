"""Replay of the records of streams groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.groups.modern import LEAVING
from barnabas.groups.streams.description import stored_description
from barnabas.groups.streams.group import StreamsGroup
from barnabas.groups.streams.members import StreamsMember
from barnabas.groups.streams.records import target_of, with_assignment, with_metadata
from barnabas.groups.streams.tasks import NOTHING_HELD
from barnabas.groups.streams.topology import topology_of
from barnabas.protocol.messages.records.streams_group import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyDescriptionKey,
    StreamsGroupTopologyDescriptionValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.groups.manager import Replay

FindGroup = Callable[[str, bool], StreamsGroup | None]
"""Finds the group of a record; `create`: create it if it does not exist."""


class StreamsReplays:
    """Tombstones of unknown groups and members are ignored: compaction may have kept only those."""

    def __init__(self, find: FindGroup, forget: Callable[[str], None]) -> None:
        self._find = find
        self._forget = forget

    def table(self) -> Mapping[type[Message], Replay]:
        return {
            StreamsGroupMetadataKey: self._epoch,
            StreamsGroupTopologyKey: self._topology,
            StreamsGroupTopologyDescriptionKey: self._description,
            StreamsGroupMemberMetadataKey: self._member,
            StreamsGroupTargetAssignmentMetadataKey: self._assignment_epoch,
            StreamsGroupTargetAssignmentMemberKey: self._target,
            StreamsGroupCurrentMemberAssignmentKey: self._current,
        }

    def _epoch(self, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None) -> None:
        if value is None:
            self._forget(key.group_id)
            return
        if group := self._find(key.group_id, True):
            group.set_epoch(value.epoch, value.metadata_hash)
            group.validated_epoch = value.validated_topology_epoch
            group.assignment_configs = {one.key: one.value for one in value.last_assignment_configs or ()}

    def _topology(self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
        if group := self._find(key.group_id, value is not None):
            group.topology = None if value is None else topology_of(value)

    def _description(
        self, key: StreamsGroupTopologyDescriptionKey, value: StreamsGroupTopologyDescriptionValue | None
    ) -> None:
        if group := self._find(key.group_id, value is not None):
            group.description = None if value is None else stored_description(value)

    def _member(
        self, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        if value is None:
            group.remove(key.member_id)
        else:
            known = group.members.get(key.member_id) or StreamsMember(key.member_id)
            group.store(with_metadata(known, value))

    def _assignment_epoch(
        self,
        key: StreamsGroupTargetAssignmentMetadataKey,
        value: StreamsGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        if group := self._find(key.group_id, value is not None):
            if value is None:
                group.set_assignment_epoch(LEAVING, 0)
            else:
                group.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)

    def _target(
        self,
        key: StreamsGroupTargetAssignmentMemberKey,
        value: StreamsGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if group := self._find(key.group_id, value is not None):
            if value is None:
                group.targets.pop(key.member_id, None)
            else:
                group.targets[key.member_id] = target_of(value)

    def _current(
        self,
        key: StreamsGroupCurrentMemberAssignmentKey,
        value: StreamsGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        known = group.members.get(key.member_id)
        if value is not None:
            group.store(with_assignment(known or StreamsMember(key.member_id), value))
        elif known is not None:
            group.store(
                replace(
                    known,
                    member_epoch=LEAVING,
                    previous_member_epoch=LEAVING,
                    assigned=NOTHING_HELD,
                    pending_revocation=NOTHING_HELD,
                )
            )
