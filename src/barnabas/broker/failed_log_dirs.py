"""Log dir failures: the replicas in a failed log dir go offline, and the controller is informed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Protocol

from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, Uuid
from barnabas.handlers import LOST_DIR
from barnabas.log import Log
from barnabas.log.dirs import LogManager
from barnabas.protocol.messages.replication import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from barnabas.replication import ReplicaManager

logger = safe_logger(__name__)

RETRY_SECONDS = 0.5


class _Broker(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def broker_epoch(self) -> int: ...
    @property
    def is_alone(self) -> bool: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def logs(self) -> LogManager: ...
    @property
    def replicas(self) -> ReplicaManager: ...


class FailedLogDirs:
    """`ask_controller` sends a request to the controller; `on_replicas_lost` runs after partitions went offline."""

    def __init__(
        self,
        broker: _Broker,
        ask_controller: Callable[[Any], Awaitable[Any]],
        on_replicas_lost: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._ask_controller = ask_controller
        self._on_replicas_lost = on_replicas_lost
        self._left: set[str] = set()
        self._reporting: asyncio.Task[None] | None = None
        self.on_all_failed: Callable[[], None] = lambda: None
        """Called when all log dirs have failed. As in Kafka the process should exit so that other brokers take over."""

    def flush_failed(self, log: Log, error: Exception) -> None:
        """Take the log dir offline. A failed flush is never retried."""
        self._broker.logs.take_offline(log, error if isinstance(error, OSError) else OSError(str(error)))
        self.leave()

    def leave(self) -> None:
        """Take the replicas in newly failed log dirs offline; other log dirs are not affected."""
        broker = self._broker
        failed = broker.logs.offline_dirs
        for folder in failed.keys() - self._left:
            self._left.add(folder)
            broker.replicas.take_offline(partial(_lies_in, folder), failed[folder])
            self._on_replicas_lost()
            self.report()
            if len(failed) == len(broker.logs.dirs):
                logger.critical("no log dir is left: this broker cannot go on")
                self.on_all_failed()

    def report(self) -> None:
        """Report offline replicas to the controller until none is a leader or in an ISR or ELR."""
        if self._broker.replicas.offline and self._reporting is None and not self._broker.is_alone:
            self._reporting = asyncio.ensure_future(self._report())

    def stop(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()

    async def _report(self) -> None:
        known: set[tuple[TopicPartition, int]] = set()
        while lost := self._counted_on() - known:
            try:
                response = await self._ask_controller(self._request(tp for tp, _ in lost))
                if response.error_code:
                    raise KafkaError(ErrorCode(response.error_code))
                known |= lost
            except KafkaError as error:
                logger.info("the controller does not know yet what a failed disk took: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
        self._reporting = None

    def _counted_on(self) -> set[tuple[TopicPartition, int]]:
        """Offline replicas that are still leader or in the ISR or ELR, with the partition epoch: the controller may
        elect the last known leader again."""
        broker, counted_on = self._broker, set()
        for tp in broker.replicas.offline:
            state = broker.image.partition(*tp)
            if state is not None and broker.node_id in (state.leader, *state.isr, *state.elr):
                counted_on.add((tp, state.partition_epoch))
        return counted_on

    def _request(self, lost: Iterable[TopicPartition]) -> AssignReplicasToDirsRequest:
        broker = self._broker
        topics: dict[Uuid, AssignReplicasToDirsRequestTopicData] = {}
        for name, index in lost:
            if (topic := broker.image.topics.get(name)) is not None:
                data = topics.setdefault(
                    topic.topic_id, AssignReplicasToDirsRequestTopicData(topic.topic_id, partitions=[])
                )
                data.partitions.append(AssignReplicasToDirsRequestPartitionData(index))
        lost_dir = AssignReplicasToDirsRequestDirectoryData(LOST_DIR, list(topics.values()))
        return AssignReplicasToDirsRequest(
            broker_id=broker.node_id, broker_epoch=broker.broker_epoch, directories=[lost_dir]
        )


def _lies_in(folder: str, log: Log) -> bool:
    return log.folder.startswith(folder + os.sep)
