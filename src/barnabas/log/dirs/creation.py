"""A new, empty log."""

from __future__ import annotations

import os

from barnabas.config.topic import LogConfig
from barnabas.common.files import FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import encode_partition_metadata, read_if_there
from barnabas.log.dirs.disk import Disk
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.flushing import Unsynced
from barnabas.log.log import Log
from barnabas.log.parts import LogParts
from barnabas.log.producers import ProducerStates
from barnabas.log.recovery.snapshots import SnapshotFiles
from barnabas.log.segments.open_segments import OpenSegments
from barnabas.log.segments.segment import Segment
from barnabas.common.types import TopicPartition, Uuid


def make_files(fs: FileSystem, folder: str, topic_id: Uuid) -> None:
    """The slow part of a creation, new names on the disk. Done twice it changes nothing; safe in a thread."""
    metadata = f"{folder}/{names.PARTITION_METADATA}"
    contents = encode_partition_metadata(topic_id)
    if read_if_there(fs, metadata) != contents:
        fs.make_folders(folder)
        fs.write_atomic(metadata, contents, sync=False)
        fs.open(names.path_of(folder, 0, names.LOG), create=True).close()


def create_log(
    fs: FileSystem,
    folder: str,
    topic_partition: TopicPartition,
    topic_id: Uuid,
    config: LogConfig,
    *,
    disk: Disk,
    open_segments: OpenSegments,
    now_ms: int,
    roll_jitter: float = 0.0,
) -> Log:
    """Write the topic's id and an empty first segment. OSError when the disk does not let us."""
    make_files(fs, folder, topic_id)
    metadata = f"{folder}/{names.PARTITION_METADATA}"
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
        unsynced=Unsynced([folder, os.path.dirname(folder)], [metadata]),
    )
    return Log(
        fs,
        folder,
        topic_partition,
        topic_id,
        config,
        parts,
        disk=disk,
        open_segments=open_segments,
        roll_jitter=roll_jitter,
    )
