"""Partitions that have an entry in a checkpoint of the log dir, but no folder.

A broker that opened an empty log in their place and led it would make its followers truncate intact records. So at
startup such a partition counts as damaged (`MissingLog`), and its checkpoint entries are kept. It starts with an empty
log only

- if another replica leads and this one is neither in the ISR nor in the ELR: it fetches everything from there;
- if no other replica can lead, and either an operator has accepted the loss (`barnabas log repair --accept-loss`)
  or the object store has all records up to the checkpointed offset (decision 0033).

A checkpoint entry without a folder is not a loss in these cases:

| case                                        | reason                                                             |
|---------------------------------------------|--------------------------------------------------------------------|
| the topic or the replica is not in the image | deleted or moved to another broker while this one was down        |
| a `-delete` folder of it is in the same dir | deleted before a crash: the checkpoint is written before its removal |
| the folder is in another log dir            | moved there before a crash                                         |
| a log dir is offline                        | the folder may be in that dir                                      |
| only a high watermark, after a power failure | nothing was flushed, so the folder may never have reached the disk |
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from barnabas.common.types import TopicPartition
from barnabas.log import names
from barnabas.log.dirs.log_dir import Checkpoints, LogDir
from barnabas.log.dirs.state import ACCEPTED_LOSSES


def noted_without_folder(
    checkpoints: Checkpoints,
    names_in_dir: Collection[str],
    doubted: Callable[[TopicPartition], bool] | None = None,
) -> dict[TopicPartition, tuple[int, int]]:
    """(log start, end) by the checkpoints, for each partition that has records by them and no folder in the log dir.

    If `doubted` returns True for a partition, its high watermark is ignored: only flushed records count.
    """
    points, starts, marks = checkpoints
    retired = [name for name in names_in_dir if name.endswith(names.DELETE_FOLDER)]
    missing = {}
    for partition in points.keys() | marks.keys():
        start, end = starts.get(partition, 0), points.get(partition, 0)
        if doubted is None or not doubted(partition):
            end = max(end, marks.get(partition, 0))
        has_no_folder = end > start and str(partition) not in names_in_dir
        if has_no_folder and not any(names.is_deleted_folder(name, partition) for name in retired):
            missing[partition] = start, end
    return missing


def accept_losses(log_dir: LogDir, partitions: Collection[TopicPartition]) -> None:
    """Allow the broker to start these with empty logs. The caller holds the lock of the log dir."""
    accepted = log_dir.state.read_partitions(ACCEPTED_LOSSES) | set(partitions)
    log_dir.state.write_partitions(ACCEPTED_LOSSES, accepted)
