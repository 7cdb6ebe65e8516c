"""DescribeLogDirs, versions 1 to 5, and AlterReplicaLogDirs, 1 and 2: replicas by log dir, and moves between
log dirs.

- The copy of a moving replica has a separate row in the dir that it moves to (`is_future_key`).
- A replica that is not here yet is REPLICA_NOT_AVAILABLE, and will be created in that dir.
- Moving a replica to its current dir cancels a move.
- Clients that send the Barnabas tag also get the status of tiered storage (protocol/messages/tiers.py).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TYPE_CHECKING, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.types import TopicPartition
from barnabas.log import Log
from barnabas.log.dirs import LogManager, MoveState
from barnabas.network.requests import Result, run_or_continue_in_slices
from barnabas.protocol.messages.cluster import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult,
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.protocol.messages.tiers import BrokerTiers
from barnabas.protocol.wire import STEP

if TYPE_CHECKING:
    from barnabas.network.requests import Request

logger = rate_limited_logger(__name__)


class MovesReplicas(Protocol):
    def move(self, partition: TopicPartition, path: str) -> None:
        """Move a replica to a log dir; raise KafkaError if that is not possible."""
        ...


class DirTiering(Protocol):
    def describe_broker(self) -> BrokerTiers:
        """Return the tiered storage status of this broker."""
        ...


class LogDirsNeeds(Protocol):
    """Broker attributes used by the log dir handlers."""

    @property
    def files(self) -> FileSystem: ...
    @property
    def logs(self) -> LogManager: ...
    @property
    def moves(self) -> MovesReplicas: ...
    @property
    def tiering(self) -> DirTiering: ...


def describe_log_dirs(
    broker: LogDirsNeeds, request: Request, message: DescribeLogDirsRequest
) -> Result[DescribeLogDirsResponse]:
    described = _describing(broker, _wanted(message.topics), with_tiers=message.barnabas_tiers)
    return run_or_continue_in_slices(request, described)


def _describing(
    broker: LogDirsNeeds, wanted: set[tuple[str, int]] | None, *, with_tiers: bool
) -> Generator[None, None, DescribeLogDirsResponse]:
    response = DescribeLogDirsResponse()
    if with_tiers:
        response.barnabas_tiers = broker.tiering.describe_broker()
    for folder in broker.logs.folders:
        described = yield from _describe(broker, folder, wanted)
        response.results.append(described)
    return response


def _wanted(topics: list[DescribableLogDirTopic] | None) -> set[tuple[str, int]] | None:
    """Return the requested partitions; None means all."""
    return (
        None if topics is None else {(topic.topic, index) for topic in topics for index in topic.partitions}
    )


def _describe(
    broker: LogDirsNeeds, folder: str, wanted: set[tuple[str, int]] | None
) -> Generator[None, None, DescribeLogDirsResult]:
    if folder in broker.logs.offline_dirs:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=os.path.abspath(folder)
        )
    total, usable = broker.files.capacity(folder)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for number, log in enumerate(broker.logs.in_folder(folder), 1):
        if wanted is None or log.topic_partition in wanted:
            topics.setdefault(log.topic_partition.topic, []).append(_partition(log))
        if not number % STEP:
            yield
    for tp, row in _futures(broker, folder):
        if wanted is None or tp in wanted:
            topics.setdefault(tp.topic, []).append(row)
    return DescribeLogDirsResult(
        log_dir=os.path.abspath(folder),
        topics=[DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=broker.logs.placement.is_cordoned(folder),
    )


def _futures(broker: LogDirsNeeds, folder: str) -> list[tuple[TopicPartition, DescribeLogDirsPartition]]:
    moves = [move for move in broker.logs.moves if move.state is MoveState.COPYING]
    return [
        (
            move.partition,
            DescribeLogDirsPartition(
                partition_index=move.partition.partition,
                partition_size=move.future.size_bytes,
                offset_lag=move.lag,
                is_future_key=True,
            ),
        )
        for move in moves
        if move.target.folder == folder
    ]


def _partition(log: Log) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=log.topic_partition.partition,
        partition_size=log.size_bytes,
        # Lag of this copy behind the high watermark: 0 for a leader.
        offset_lag=max(0, log.high_watermark - log.log_end_offset),
        is_future_key=False,
    )


def alter_replica_log_dirs(
    broker: LogDirsNeeds, request: Request, message: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for log_dir in message.dirs:
        for topic in log_dir.topics:
            results.setdefault(topic.name, []).extend(_move(broker, topic, log_dir.path))
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(name, rows) for name, rows in results.items()]
    )


def _move(
    broker: LogDirsNeeds, topic: AlterReplicaLogDirTopic, path: str
) -> list[AlterReplicaLogDirPartitionResult]:
    return [
        AlterReplicaLogDirPartitionResult(index, _move_one(broker, TopicPartition(topic.name, index), path))
        for index in topic.partitions
    ]


def _move_one(broker: LogDirsNeeds, partition: TopicPartition, path: str) -> ErrorCode:
    try:
        broker.moves.move(partition, path)
    except KafkaError as error:
        logger.info("%r is not moved to %r: %s", str(partition), path, error)
        return error.code
    return ErrorCode.NONE
