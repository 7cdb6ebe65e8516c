"""Partitions whose folder is gone although a checkpoint of the log dir notes their records.

A broker that opened an empty log in their place and led it would make its followers cut their good records. So at the
start such a partition counts as damaged (`MissingLog`), and what was noted of it stays in the checkpoints. It begins
with an empty log only

- when another replica leads and this one is neither in the ISR nor in the ELR: it copies everything from there;
- when no other replica could lead, and either an operator has accepted the loss (`barnabas log repair --accept-loss`)
  or the object store has all that was noted (decision 0033).

These are no proof of a loss:

| note without a folder                      | why                                                            |
|--------------------------------------------|----------------------------------------------------------------|
| the topic or the replica is not in the image | deleted or moved to another broker while this one was down     |
| a folder `-delete` of it is in the same dir  | deleted just before a crash: it goes only after the note has gone |
| the folder is in another log dir           | moved there just before a crash                                |
| a log dir is offline                       | it may be in there                                             |
| only a high watermark, after a power cut   | the folder may never have reached the disk: nothing was flushed |
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from barnabas.common.types import TopicPartition
from barnabas.log import names
from barnabas.log.dirs.log_dir import ACCEPTED_LOSSES, Checkpoints, LogDir


def noted_without_folder(
    checkpoints: Checkpoints,
    names_in_dir: Collection[str],
    doubted: Callable[[TopicPartition], bool] | None = None,
) -> dict[TopicPartition, tuple[int, int]]:
    """(log start, end) as far as was noted, of each partition that has records by its log dir, and no folder there.
    Of one that is `doubted` only what was flushed counts."""
    points, starts, marks = checkpoints
    retired = [name for name in names_in_dir if name.endswith(names.DELETE_FOLDER)]
    found = {}
    for partition in points.keys() | marks.keys():
        start, end = starts.get(partition, 0), points.get(partition, 0)
        if doubted is None or not doubted(partition):
            end = max(end, marks.get(partition, 0))
        is_gone = end > start and str(partition) not in names_in_dir
        if is_gone and not any(names.is_deleted_folder(name, partition) for name in retired):
            found[partition] = start, end
    return found


def accept_losses(log_dir: LogDir, partitions: Collection[TopicPartition]) -> None:
    """The next start of the broker may begin these with empty logs. The lock of the log dir is held."""
    accepted = log_dir.read_partitions(ACCEPTED_LOSSES) | set(partitions)
    log_dir.write_partitions(ACCEPTED_LOSSES, accepted)
