"""The names of files and folders, as Kafka gives them."""

from __future__ import annotations

import uuid

from barnabas.common.types import TopicPartition

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
PRODUCER_SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED = ".deleted"  # a file on its way out, removed after file.delete.delay.ms
CLEANED = ".cleaned"  # what the cleaner has not finished writing
SWAP = ".swap"  # what the cleaner has finished and was about to put in place
TEMPORARY = ".tmp"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
TIERED_PART = "tiered-offset-checkpoint"  # log/tiering/checkpoint.py
BEGINNING = ".barnabas-beginning"  # records of an object store are being written (broker/tiering/beginnings)
REBUILDING = ".barnabas-rebuilding"  # a compacted log gets its records back (log/tiering/rebuilding.py)
MOVED_FROM = ".barnabas-moved-from"  # the log dir that a folder replaces (log/dirs/move.py)

DELETE_FOLDER = "-delete"
STRAY_FOLDER = "-stray"
FUTURE_FOLDER = "-future"
MAX_FOLDER_NAME = 255  # the limit of the common file systems; Kafka cuts the topic's name to fit


def path_of(folder: str, base_offset: int, suffix: str) -> str:
    return f"{folder}/{base_offset:020d}{suffix}"


def offset_in_name(name: str) -> int | None:
    """The offset a file's name starts with, or None for a name that Kafka would not give."""
    digits = name.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def partition_of_folder(name: str) -> TopicPartition | None:
    """`orders-3` -> orders, 3; None for a folder that is not a partition in use."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        return None
    return TopicPartition(topic, int(number))


def partition_of_future(name: str) -> TopicPartition | None:
    """`orders-3.<id>-future` -> orders, 3: the copy of a partition that moves to another log dir."""
    partition, dot, _ = name.removesuffix(FUTURE_FOLDER).rpartition(".")
    return partition_of_folder(partition) if dot and name.endswith(FUTURE_FOLDER) else None


def is_deleted_folder(name: str, partition: TopicPartition) -> bool:
    """Is it the folder of this partition on its way out? The topic's part of a long name is cut."""
    start, dot, ending = name.rpartition(".")
    longest = MAX_FOLDER_NAME - len(dot + ending)
    return name.endswith(DELETE_FOLDER) and bool(dot) and start == str(partition)[:longest]


def retired_folder_name(partition: TopicPartition, suffix: str) -> str:
    """A fresh name for a folder of a partition that is not the one in use: `orders-3.<uuid>-delete`."""
    ending = f".{uuid.uuid4().hex}{suffix}"
    return str(partition)[: MAX_FOLDER_NAME - len(ending)] + ending
