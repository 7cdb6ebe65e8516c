"""Topology descriptions for display (KIP-1331): requested from a member and stored with the group.

Kafka passes them to a plugin and ships none. Here a description is one more record of the group, as the member
sent it: it survives restarts and is deleted with the group. In memory it stays encoded and counts as member metadata.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import CoordinatorRecord
from barnabas.groups.records import VERSION, record, tombstone
from barnabas.protocol.coordinator_records import decode_versioned, encode_versioned
from barnabas.protocol.messages.records.streams_group import (
    StreamsGroupTopologyDescriptionKey,
    StreamsGroupTopologyDescriptionValue,
)
from barnabas.protocol.messages.streams import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)

FIRST_HEARTBEAT_WITH_DESCRIPTIONS = 1

PAUSE_MS = 30_000
"""Time for a member to send it before another one is asked. Members may be configured to send nothing."""


class TopologyAvailability:
    """Status in the response of StreamsGroupDescribe."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    AVAILABLE = 3


class StoredDescription(NamedTuple):
    epoch: int
    """Epoch of the topology that it describes."""
    data: bytes

    def decoded(self) -> TopologyDescription:
        value: StreamsGroupTopologyDescriptionValue = decode_versioned(
            StreamsGroupTopologyDescriptionValue, self.data
        )
        return value.topology_description


def stored_description(value: StreamsGroupTopologyDescriptionValue) -> StoredDescription:
    return StoredDescription(value.topology_epoch, encode_versioned(value, VERSION))


def description_value(
    request: StreamsGroupTopologyDescriptionUpdateRequest,
) -> StreamsGroupTopologyDescriptionValue:
    return StreamsGroupTopologyDescriptionValue(request.topology_epoch, request.topology_description)


def description_record(group_id: str, value: StreamsGroupTopologyDescriptionValue) -> CoordinatorRecord:
    return record(StreamsGroupTopologyDescriptionKey(group_id=group_id), value)


def description_tombstone(group_id: str) -> CoordinatorRecord:
    return tombstone(StreamsGroupTopologyDescriptionKey(group_id=group_id))


def check_update(request: StreamsGroupTopologyDescriptionUpdateRequest, max_bytes: int) -> None:
    """Validate a request, independent of the group."""
    if not max_bytes:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "This broker keeps no descriptions of topologies "
            "(barnabas.streams.topology.description.max.bytes is 0).",
        )
    if not request.member_id.strip():
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if not request.group_id.strip():
        raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")


def update_failed(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, reason)
