"""Log dir failures: the replicas in a failed log dir go offline, and the controller is informed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

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
from barnabas.replication import BrokerIdentity, ReplicaManager

logger = safe_logger(__name__)

RETRY_SECONDS = 0.5


class FailedLogDirs:
    """`ask_controller` sends a request to the controller; None on a single node, where there is nothing to report."""

    def __init__(
        self,
        logs: LogManager,
        replicas: ReplicaManager,
        *,
        image: Callable[[], MetadataImage],
        identity: Callable[[], BrokerIdentity],
        ask_controller: Callable[[Any], Awaitable[Any]] | None,
        on_replicas_lost: Callable[[], None],
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._image = image
        self._identity = identity
        self._ask_controller = ask_controller
        self._on_replicas_lost = on_replicas_lost
        self._left: set[str] = set()
        self._reporting: asyncio.Task[None] | None = None
        self.on_all_failed: Callable[[], None] = lambda: None
        """Called when all log dirs have failed. As in Kafka the process should exit so that other brokers take over."""

    def flush_failed(self, log: Log, error: Exception) -> None:
        """Take the log dir offline. A failed flush is never retried."""
        self._logs.take_offline(log, error if isinstance(error, OSError) else OSError(str(error)))
        self.leave()

    def leave(self) -> None:
        """Take the replicas in newly failed log dirs offline; other log dirs are not affected."""
        failed = self._logs.offline_dirs
        for folder in failed.keys() - self._left:
            self._left.add(folder)
            self._replicas.take_offline(partial(_is_in, folder), failed[folder])
            self._on_replicas_lost()
            self.report()
            if len(failed) == len(self._logs.dirs):
                logger.critical("all log dirs have failed: shutting down")
                self.on_all_failed()

    def report(self) -> None:
        """Report offline replicas to the controller until none is a leader or in an ISR or ELR."""
        ask = self._ask_controller
        if self._replicas.offline and self._reporting is None and ask is not None:
            self._reporting = asyncio.ensure_future(self._report(ask))

    def stop(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()

    async def _report(self, ask: Callable[[Any], Awaitable[Any]]) -> None:
        known: set[tuple[TopicPartition, int]] = set()
        while lost := self._counted_on() - known:
            try:
                response = await ask(self._request(tp for tp, _ in lost))
                if response.error_code:
                    raise KafkaError(ErrorCode(response.error_code))
                known |= lost
            except KafkaError as error:
                logger.info("cannot report the offline replicas to the controller: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
        self._reporting = None

    def _counted_on(self) -> set[tuple[TopicPartition, int]]:
        """Offline replicas that are still leader or in the ISR or ELR, with the partition epoch: the controller may
        elect the last known leader again."""
        image, node_id, counted_on = self._image(), self._identity().broker_id, set()
        for tp in self._replicas.offline:
            state = image.partition(*tp)
            if state is not None and node_id in (state.leader, *state.isr, *state.elr):
                counted_on.add((tp, state.partition_epoch))
        return counted_on

    def _request(self, lost: Iterable[TopicPartition]) -> AssignReplicasToDirsRequest:
        image, identity = self._image(), self._identity()
        topics: dict[Uuid, AssignReplicasToDirsRequestTopicData] = {}
        for name, index in lost:
            if (topic := image.topics.get(name)) is not None:
                data = topics.setdefault(
                    topic.topic_id, AssignReplicasToDirsRequestTopicData(topic.topic_id, partitions=[])
                )
                data.partitions.append(AssignReplicasToDirsRequestPartitionData(index))
        lost_dir = AssignReplicasToDirsRequestDirectoryData(LOST_DIR, list(topics.values()))
        return AssignReplicasToDirsRequest(
            broker_id=identity.broker_id, broker_epoch=identity.broker_epoch, directories=[lost_dir]
        )


def _is_in(folder: str, log: Log) -> bool:
    return log.folder.startswith(folder + os.sep)
