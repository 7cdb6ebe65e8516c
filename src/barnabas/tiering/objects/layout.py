"""The keys of all objects, below the store's prefix.

<cluster id>/topics/<topic>.<topic id>/<partition>/manifest
                                                  /<base:020>-<epoch:010>-<8 hex>.segment
                                                  /<T:020>-<epoch:010>-<8 hex>.page
             cluster/<incarnation:010>-<metadata offset:020>   groups/<incarnation:010>-<n>
             snapshots/<name>/...   incarnation
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeVar

import msgspec
from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.types import Uuid, uuid_from_text, uuid_to_text

# -- JSON with its own checksum: {"crc": CRC-32C of the body's bytes, "body": ...} ------------------

T = TypeVar("T")


class DamagedError(ValueError):
    """Checksum or format error."""


class _Envelope(msgspec.Struct):
    crc: int
    body: msgspec.Raw


def seal(value: Any) -> bytes:
    body = msgspec.json.encode(value)
    return msgspec.json.encode(_Envelope(crc32c(body), msgspec.Raw(body)))


def unseal(data: bytes, kind: type[T]) -> T:
    """Decode the output of `seal`; DamagedError if it is damaged."""
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if crc32c(bytes(envelope.body)) != envelope.crc:
            raise DamagedError("its checksum is wrong")
        return msgspec.json.decode(envelope.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedError(str(error)) from error


MANIFEST = "manifest"
SEGMENT_SUFFIX = ".segment"
PAGE_SUFFIX = ".page"
_OBJECT = re.compile(r"(\d{20})-(\d{10})-([0-9a-f]{8})(\.segment|\.page)")


class PartitionFolder(NamedTuple):
    """Folder of the objects of one partition."""

    cluster_id: str
    topic: str
    topic_id: Uuid
    partition: int

    @property
    def prefix(self) -> str:
        return f"{topic_prefix(self.cluster_id, self.topic, self.topic_id)}{self.partition}/"

    @property
    def manifest(self) -> str:
        return self.prefix + MANIFEST

    def key(self, name: str) -> str:
        return self.prefix + name


class SegmentName(NamedTuple):
    """Name of a segment object, or of a manifest page, in its partition's folder."""

    base: int
    leader_epoch: int
    nonce: str
    suffix: str = SEGMENT_SUFFIX

    def __str__(self) -> str:
        return f"{self.base:020}-{self.leader_epoch:010}-{self.nonce}{self.suffix}"


def incarnation_key(cluster_id: str) -> str:
    return f"{cluster_id}/incarnation"


def cluster_state_prefix(cluster_id: str) -> str:
    return f"{cluster_id}/cluster/"


def group_state_key(cluster_id: str, incarnation: int, partition: int) -> str:
    return f"{cluster_id}/groups/{incarnation:010}-{partition}"


def behind(prefix: str) -> str:
    """Smallest key above all keys with this prefix (which ends with `/`)."""
    return prefix.removesuffix("/") + chr(ord("/") + 1)


def snapshots_prefix(cluster_id: str) -> str:
    return f"{cluster_id}/snapshots/"


def topics_prefix(cluster_id: str) -> str:
    return f"{cluster_id}/topics/"


def topic_prefix(cluster_id: str, topic: str, topic_id: Uuid) -> str:
    return f"{topics_prefix(cluster_id)}{topic}.{uuid_to_text(topic_id)}/"


def parse_segment_name(name: str) -> SegmentName | None:
    parsed = parse_object_name(name)
    return parsed if parsed is not None and parsed.suffix == SEGMENT_SUFFIX else None


def parse_object_name(name: str) -> SegmentName | None:
    """Parse the name of a segment or page; None for other objects."""
    found = _OBJECT.fullmatch(name)
    return SegmentName(int(found[1]), int(found[2]), found[3], found[4]) if found else None


def first_name_from(offset: int) -> str:
    """Smallest possible name of an object that begins at `offset`."""
    return f"{offset:020}-"


def parse_partition_prefix(prefix: str) -> PartitionFolder | None:
    """Parse a partition's prefix into its folder; None if it has another form."""
    parts = prefix.rstrip("/").split("/")
    if len(parts) != 4 or parts[1] != "topics" or not parts[3].isdigit():
        return None
    topic, _, topic_id = parts[2].rpartition(".")
    try:
        return PartitionFolder(parts[0], topic, uuid_from_text(topic_id), int(parts[3]))
    except ValueError:
        return None
