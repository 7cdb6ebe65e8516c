"""The record of a classic group: its generation with members and assignments."""

from __future__ import annotations

from barnabas.coordination import CoordinatorRecord
from barnabas.groups.classic.group import ClassicGroup, ClassicGroupState
from barnabas.groups.classic.member import ClassicGroupMember, MemberProtocol, Timeouts
from barnabas.groups.group import ClientInfo
from barnabas.groups.records import reason_headers
from barnabas.protocol.coordinator_records import encode_key, encode_versioned
from barnabas.protocol.messages.records.group import GroupMetadataKey, GroupMetadataValue, MemberMetadata

GROUP_VERSION = 3
READ_AT_ONCE = 256 * 1024
"""Bytes of subscriptions: about ten thousand names, five milliseconds."""


def group_record(group: ClassicGroup, assignments: dict[str, bytes]) -> CoordinatorRecord:
    """The current generation and the reasons for it, which are then cleared."""
    value = encode_versioned(to_value(group, assignments), GROUP_VERSION)
    headers = reason_headers("; ".join(group.reasons))
    group.reasons.clear()
    return CoordinatorRecord(encode_key(GroupMetadataKey(group=group.group_id)), value, headers)


def to_value(group: ClassicGroup, assignments: dict[str, bytes]) -> GroupMetadataValue:
    """The current generation with these assignments."""
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=[
            _to_metadata(group, member, assignments.get(member.member_id, b""))
            for member in group.members.values()
        ],
    )


def _to_metadata(group: ClassicGroup, member: ClassicGroupMember, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        rebalance_timeout=member.timeouts.rebalance_ms,
        session_timeout=member.timeouts.session_ms,
        subscription=member.metadata(group.protocol),
        assignment=assignment,
    )


def confirm(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Mark the current generation of a live group as stored."""
    assignments = {written.member_id: written.assignment for written in value.members}
    group.confirm(assignments, value.current_state_timestamp)


def from_value(group_id: str, value: GroupMetadataValue, now_ms: int) -> ClassicGroup:
    """Restore a group from the log. Of each member only the protocol of the generation is known.

    A record is parsed in one step. Large subscriptions count as unreadable until the members rejoin.
    """
    group = ClassicGroup(group_id, now_ms)
    size = sum(len(written.subscription) for written in value.members)
    for written in value.members:
        member = _to_member(value.protocol or "", written)
        group.add(member, value.protocol_type, is_read=size <= READ_AT_ONCE)
    group.generation = group.written_generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.leader = value.leader if value.leader in group.members else next(iter(group.members), None)
    group.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
    if value.current_state_timestamp >= 0:
        group.state_since_ms = value.current_state_timestamp
    return group


def _to_member(protocol: str, written: MemberMetadata) -> ClassicGroupMember:
    session_ms = written.session_timeout
    # Version 0 of the record has no rebalance timeout.
    rebalance_ms = written.rebalance_timeout if written.rebalance_timeout >= 0 else session_ms
    return ClassicGroupMember(
        written.member_id,
        written.group_instance_id,
        ClientInfo(written.client_id, written.client_host),
        Timeouts(rebalance_ms, session_ms),
        [MemberProtocol(protocol, written.subscription)],
        written.assignment,
    )
