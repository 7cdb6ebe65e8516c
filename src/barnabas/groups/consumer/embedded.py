"""What members of the classic protocol embed in their requests: subscriptions and assignments of consumers."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case

from barnabas.groups.modern import Assignment
from barnabas.groups.topics import Topics
from barnabas.protocol.codec import decode
from barnabas.protocol.coordinator_records import encode_versioned
from barnabas.protocol.messages.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.wire import ProtocolError

HIGHEST_VERSION = 3
"""A newer version only adds fields at the end, so it is read as the highest that we know."""

_VERSION = Struct(">h")


class EmbeddedError(ValueError):
    """A member's metadata is not what consumers send."""


def version_of(data: bytes) -> int:
    try:
        version = int(_VERSION.unpack_from(data)[0])
    except StructError:
        raise EmbeddedError("there is no version") from None
    if version < 0:
        raise EmbeddedError(f"version {version}")
    return min(version, HIGHEST_VERSION)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    try:
        return decode(ConsumerProtocolSubscription, version_of(data), data, _VERSION.size)[0]
    except ProtocolError as error:
        raise EmbeddedError(str(error)) from None


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Nothing was assigned to a member that has not synced yet."""
    if not data:
        return ConsumerProtocolAssignment()
    try:
        return decode(ConsumerProtocolAssignment, version_of(data), data, _VERSION.size)[0]
    except ProtocolError as error:
        raise EmbeddedError(str(error)) from None


def write_assignment(assignment: Assignment, topics: Topics, version: int) -> bytes:
    """By name; topics that are gone are left out."""
    named = ((topics.name_of(topic), sorted(indexes)) for topic, indexes in assignment.items())
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=indexes)
            for name, indexes in named
            if name is not None
        ]
    )
    return encode_versioned(message, version)
