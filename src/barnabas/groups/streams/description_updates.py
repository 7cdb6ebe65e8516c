"""Asking members of streams groups for descriptions of their topologies, and keeping what they send."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.kind import ShardContext
from barnabas.groups.step import Step
from barnabas.groups.streams.description import (
    PAUSE_MS,
    StoredDescription,
    description_record,
    description_value,
    stored_description,
    update_failed,
)
from barnabas.groups.streams.group import StreamsGroup
from barnabas.groups.streams.members import StreamsMember
from barnabas.protocol.messages.streams import StreamsGroupTopologyDescriptionUpdateRequest


class Descriptions:
    """Of the groups in a shard; `find` raises where there is no such streams group."""

    def __init__(self, context: ShardContext, find: Callable[[str], StreamsGroup]) -> None:
        self._context = context
        self._find = find

    def are_wanted_of(self, group: StreamsGroup, member: StreamsMember) -> bool:
        """Shall this member send what the topology looks like? One at a time is asked."""
        topology, stored = group.topology, group.description
        if not self._context.settings.streams_description_max_bytes or topology is None:
            return False
        known = (group.refused_description_epoch, None if stored is None else stored.epoch)
        if member.topology_epoch != topology.epoch or topology.epoch in known:
            return False
        now_ms = self._context.clock.now_ms()
        if now_ms < group.description_wanted_at_ms:
            return False
        group.description_wanted_at_ms = now_ms + PAUSE_MS
        return True

    def update(self, request: StreamsGroupTopologyDescriptionUpdateRequest, step: Step) -> None:
        """Keep what a member has sent. Of a group that is gone it is UNKNOWN_MEMBER_ID: the member shall rejoin."""
        if request.group_id not in self._context.groups:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Streams group {request.group_id} not found.")
        group = self._find(request.group_id)
        group.member(request.member_id)
        epoch = None if group.topology is None else group.topology.epoch
        if request.topology_epoch != epoch:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The description is of topology epoch {request.topology_epoch}, the group has {epoch}.",
            )
        value = description_value(request)
        stored = stored_description(value)
        if stored != group.description:
            self._check_room(group, stored)
            step.records.append(description_record(request.group_id, value))

    def _check_room(self, group: StreamsGroup, stored: StoredDescription) -> None:
        """What does not fit is not asked for again."""
        size, most = len(stored.data), self._context.settings.streams_description_max_bytes
        try:
            self._context.ledger.check_bytes(size)
            if size > most:
                setting = "barnabas.streams.topology.description.max.bytes"
                raise update_failed(f"The description takes {size} bytes, more than {most} ({setting}).")
        except KafkaError as error:
            group.refused_description_epoch = stored.epoch
            raise update_failed(error.message) from error
