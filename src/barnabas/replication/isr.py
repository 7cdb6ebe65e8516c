"""Sends ISR changes to the controller (AlterPartition): one request at a time, with all pending proposals.

A proposal stays pending, and the high watermark waits for its new members, until a newer state arrives in the
metadata log or the controller rejects it for good. A lost response decides nothing: the proposal may have been
accepted. Nor does INVALID_UPDATE_VERSION for a retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import Uuid
from barnabas.protocol.messages.replication import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from barnabas.replication.fetcher import BrokerIdentity
from barnabas.replication.partition import Partition
from barnabas.replication.progress import IsrProposal

logger = safe_logger(__name__)

RETRY_SECONDS = 0.2
_ASK_AGAIN = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})
# Earlier changes will arrive through the metadata log.
_SUPERSEDED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class IsrChanges:
    def __init__(
        self,
        ask_controller: Callable[[AlterPartitionRequest], Awaitable[Any]],
        identity: Callable[[], BrokerIdentity],
    ) -> None:
        self._ask_controller = ask_controller
        self._identity = identity
        self._wanted: dict[Partition, IsrProposal] = {}
        self._task: asyncio.Task[None] | None = None

    def want(self, partition: Partition, proposal: IsrProposal) -> None:
        self._wanted[partition] = proposal
        if self._task is None:
            self._task = asyncio.ensure_future(self._ask())

    def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _ask(self) -> None:
        while asking := self._pending():
            try:
                request = _request(self._identity(), asking)
                response: AlterPartitionResponse = await self._ask_controller(request)
                if response.error_code:
                    raise KafkaError(ErrorCode(response.error_code))
            except KafkaError as error:
                logger.info("AlterPartition failed: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except Exception:  # keep retrying, whatever the error
                logger.exception("AlterPartition failed unexpectedly")
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if self._take(asking, response):
                await asyncio.sleep(RETRY_SECONDS)
        self._task = None

    def _pending(self) -> dict[Partition, IsrProposal]:
        self._wanted = {
            partition: proposal
            for partition, proposal in self._wanted.items()
            if partition.proposal is proposal
        }
        return dict(self._wanted)

    def _take(self, proposals: dict[Partition, IsrProposal], response: AlterPartitionResponse) -> bool:
        """Apply the response; True if a proposal must be sent again."""
        answers = {
            (topic.topic_id, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        again = False
        for partition, proposal in proposals.items():
            answer = answers.get((partition.topic_id, partition.index))
            error = ErrorCode(answer.error_code) if answer is not None else ErrorCode.NOT_CONTROLLER
            if error in _ASK_AGAIN:
                again = True
                continue
            if self._wanted.get(partition) is proposal:
                del self._wanted[partition]
            if error not in _SUPERSEDED:
                partition.refused(proposal)
        return again


def _request(identity: BrokerIdentity, asking: dict[Partition, IsrProposal]) -> AlterPartitionRequest:
    topics: dict[Uuid, AlterPartitionRequestTopicData] = {}
    for partition, proposal in asking.items():
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = AlterPartitionRequestTopicData(topic_id=partition.topic_id, partitions=[])
            topics[partition.topic_id] = topic
        topic.partitions.append(
            AlterPartitionRequestPartitionData(
                partition_index=partition.index,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                new_isr_with_epochs=[BrokerState(member, epoch) for member, epoch in proposal.members],
            )
        )
    return AlterPartitionRequest(
        broker_id=identity.broker_id, broker_epoch=identity.broker_epoch, topics=list(topics.values())
    )
