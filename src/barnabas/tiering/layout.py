"""The keys of all objects, below the store's prefix.

<cluster id>/topics/<topic>.<topic id>/<partition>/manifest
                                                  /<base:020>-<epoch:010>-<8 hex>.segment
             cluster/<metadata offset>   groups/<n>   snapshots/<name>   incarnation
"""

from __future__ import annotations

import re
from typing import NamedTuple

from barnabas.types import Uuid, uuid_to_text

MANIFEST = "manifest"
SEGMENT_SUFFIX = ".segment"
_SEGMENT = re.compile(r"(\d{20})-(\d{10})-([0-9a-f]{8})\.segment")


class PartitionFolder(NamedTuple):
    """Where the objects of one partition lie."""

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
    """The name of a segment's object, in its partition's folder."""

    base: int
    leader_epoch: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.base:020}-{self.leader_epoch:010}-{self.nonce}{SEGMENT_SUFFIX}"


def topics_prefix(cluster_id: str) -> str:
    return f"{cluster_id}/topics/"


def topic_prefix(cluster_id: str, topic: str, topic_id: Uuid) -> str:
    return f"{topics_prefix(cluster_id)}{topic}.{uuid_to_text(topic_id)}/"


def parse_segment_name(name: str) -> SegmentName | None:
    found = _SEGMENT.fullmatch(name)
    return SegmentName(int(found[1]), int(found[2]), found[3]) if found else None
