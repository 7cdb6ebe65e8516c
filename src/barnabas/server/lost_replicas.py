"""Tells the controller which replicas lie on disks of ours that failed, until it knows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.log_lines import safe_logger
from barnabas.protocol.messages.replication import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from barnabas.server.forwarding import to_controller
from barnabas.server.handlers.replication import LOST_DIR
from barnabas.types import Uuid

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = safe_logger(__name__)

RETRY_SECONDS = 0.5


class LostReplicas:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """There may be more of them than the controller knows."""
        if self._broker.replicas.offline and self._task is None and not self._broker.is_alone:
            self._task = asyncio.ensure_future(self._tell())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _tell(self) -> None:
        told: set[tuple[str, int]] = set()
        while offline := set(self._broker.replicas.offline) - told:
            try:
                response = await to_controller(self._broker, self._request())
                if response.error_code:
                    raise KafkaError(ErrorCode(response.error_code))
                told |= offline
            except KafkaError as error:
                logger.info("the controller does not know yet what a failed disk took: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
        self._task = None

    def _request(self) -> AssignReplicasToDirsRequest:
        broker = self._broker
        topics: dict[Uuid, AssignReplicasToDirsRequestTopicData] = {}
        for name, index in broker.replicas.offline:
            if (topic := broker.image.topics.get(name)) is not None:
                place = topics.setdefault(
                    topic.topic_id, AssignReplicasToDirsRequestTopicData(topic.topic_id, partitions=[])
                )
                place.partitions.append(AssignReplicasToDirsRequestPartitionData(index))
        lost = AssignReplicasToDirsRequestDirectoryData(LOST_DIR, list(topics.values()))
        return AssignReplicasToDirsRequest(
            broker_id=broker.node_id, broker_epoch=broker.broker_epoch, directories=[lost]
        )
