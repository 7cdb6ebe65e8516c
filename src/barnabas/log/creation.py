"""A new, empty log in a folder that already exists."""

from __future__ import annotations

import os

from barnabas.config.topic import LogConfig
from barnabas.files import FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import encode_partition_metadata
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.gate import Gate
from barnabas.log.log import Log, LogParts
from barnabas.log.open_segments import OpenSegments
from barnabas.log.producers import ProducerStates
from barnabas.log.segment import Segment
from barnabas.log.snapshots import SnapshotFiles
from barnabas.types import TopicPartition, Uuid


def create_log(
    fs: FileSystem,
    folder: str,
    topic_partition: TopicPartition,
    topic_id: Uuid,
    config: LogConfig,
    *,
    gate: Gate,
    open_segments: OpenSegments,
    now_ms: int,
    roll_jitter: float = 0.0,
) -> Log:
    """Write the topic's id and an empty first segment. OSError when the disk does not let us."""
    metadata = f"{folder}/{names.PARTITION_METADATA}"
    fs.write_atomic(metadata, encode_partition_metadata(topic_id), sync=False)
    segment = Segment.create(fs, folder, 0, open_segments, now_ms)
    snapshots = SnapshotFiles(fs, folder)
    parts = LogParts(
        [segment],
        log_start=0,
        log_end=0,
        recovery_point=0,
        producers=ProducerStates(),
        epochs=LeaderEpochs(),
        snapshots=snapshots,
        unsynced_folders=[folder, os.path.dirname(folder)],
        unsynced_files=[metadata],
    )
    return Log(
        fs,
        folder,
        topic_partition,
        topic_id,
        config,
        parts,
        gate=gate,
        open_segments=open_segments,
        roll_jitter=roll_jitter,
    )
