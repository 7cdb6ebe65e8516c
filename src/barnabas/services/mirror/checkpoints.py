"""Checkpoints in the format of MirrorMaker 2, for clients that call RemoteClusterUtils.translateOffsets.

A record of `<alias>.checkpoints.internal` has group, target topic and partition as its key; the value holds a version,
the source offset, the target offset, and the metadata of the commit.
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
    """Return (key, value)."""
    key = _string(checkpoint.group) + _string(checkpoint.tp.topic)
    key += checkpoint.tp.partition.to_bytes(4, "big", signed=True)
    value = _VALUE.pack(_VERSION, checkpoint.upstream_offset, checkpoint.downstream_offset)
    return key, value + _string(checkpoint.metadata)


def _string(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data
