"""MirrorMaker 2's checkpoints, so that its clients (RemoteClusterUtils.translateOffsets) find ours.

A record of `<alias>.checkpoints.internal`: the key is group, topic of the target and partition; the value a version,
the source's offset, the target's, and the commit's metadata.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from barnabas.common.types import TopicPartition

TOPIC_SETTINGS = {"cleanup.policy": "compact"}
_VERSION = 0
_VALUE = struct.Struct(">hqq")


class Checkpoint(NamedTuple):
    group: str
    tp: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""


def checkpoints_topic(alias: str) -> str:
    return f"{alias}.checkpoints.internal"


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Key and value."""
    key = _string(checkpoint.group) + _string(checkpoint.tp.topic)
    key += checkpoint.tp.partition.to_bytes(4, "big", signed=True)
    value = _VALUE.pack(_VERSION, checkpoint.upstream_offset, checkpoint.downstream_offset)
    return key, value + _string(checkpoint.metadata)


def _string(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data
