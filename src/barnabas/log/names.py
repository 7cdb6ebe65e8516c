"""Names of files and folders, as in Kafka."""

from __future__ import annotations

import uuid

from barnabas.common.types import TopicPartition

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
PRODUCER_SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED = ".deleted"  # to be removed after file.delete.delay.ms
CLEANED = ".cleaned"  # being written by the cleaner
SWAP = ".swap"  # complete output of the cleaner, to be renamed
TEMPORARY = ".tmp"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
TIERED_PART = "tiered-offset-checkpoint"  # log/tiering/checkpoint.py
BEGINNING = ".barnabas-beginning"  # the log is being restored (broker/tiering/restored_partitions)
REBUILDING = ".barnabas-rebuilding"  # a compacted log is being restored (log/tiering/rebuilding.py)
MOVED_FROM = ".barnabas-moved-from"  # the log dir that a folder replaces (log/dirs/move.py)

DELETE_FOLDER = "-delete"
STRAY_FOLDER = "-stray"
FUTURE_FOLDER = "-future"
MAX_FOLDER_NAME = 255  # limit of common file systems; Kafka truncates the topic name to fit


def path_of(folder: str, base_offset: int, suffix: str) -> str:
    return f"{folder}/{base_offset:020d}{suffix}"


def offset_in_name(name: str) -> int | None:
    """Offset at the start of a file name; None if there is none."""
    digits = name.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def partition_of_folder(name: str) -> TopicPartition | None:
    """`orders-3` -> orders, 3; None for other folders, such as `-delete` and `-future`."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        return None
    return TopicPartition(topic, int(number))


def partition_of_future(name: str) -> TopicPartition | None:
    """`orders-3.<id>-future` -> orders, 3: the future replica of a partition that moves to another log dir."""
    partition, dot, _ = name.removesuffix(FUTURE_FOLDER).rpartition(".")
    return partition_of_folder(partition) if dot and name.endswith(FUTURE_FOLDER) else None


def is_deleted_folder(name: str, partition: TopicPartition) -> bool:
    """True for a `-delete` folder of this partition; long topic names are truncated in it."""
    start, dot, ending = name.rpartition(".")
    max_length = MAX_FOLDER_NAME - len(dot + ending)
    return name.endswith(DELETE_FOLDER) and bool(dot) and start == str(partition)[:max_length]


def retired_folder_name(partition: TopicPartition, suffix: str) -> str:
    """Return a unique folder name such as `orders-3.<uuid>-delete`."""
    ending = f".{uuid.uuid4().hex}{suffix}"
    return str(partition)[: MAX_FOLDER_NAME - len(ending)] + ending
