"""DescribeLogDirs, versions 1 to 5: how much of which partition lies in which folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.protocol.messages.cluster import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request


def describe_log_dirs(
    broker: Broker, request: Request, message: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    wanted = _wanted(message.topics)
    return DescribeLogDirsResponse(
        results=[_describe(broker, folder, wanted) for folder in broker.logs.folders]
    )


def _wanted(topics: list[DescribableLogDirTopic] | None) -> set[tuple[str, int]] | None:
    """None asks for everything."""
    return (
        None if topics is None else {(topic.topic, index) for topic in topics for index in topic.partitions}
    )


def _describe(broker: Broker, folder: str, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    if folder in broker.logs.offline_dirs:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=os.path.abspath(folder)
        )
    total, usable = broker.files.capacity(folder)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for log in broker.logs.in_folder(folder):
        if wanted is None or log.topic_partition in wanted:
            topics.setdefault(log.topic_partition.topic, []).append(_partition(log))
    return DescribeLogDirsResult(
        log_dir=os.path.abspath(folder),
        topics=[DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )


def _partition(log: Log) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=log.topic_partition.partition,
        partition_size=log.size_bytes,
        # How far this copy is behind what is committed: nothing, for a leader.
        offset_lag=max(0, log.high_watermark - log.log_end_offset),
        is_future_key=False,
    )
