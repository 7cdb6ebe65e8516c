"""Asks the controller for other ISRs (AlterPartition): one request at a time, with all that is wanted by then.

A proposal stays pending, and the high watermark waits for who is to be added, until a newer state arrives in the
metadata log or the controller has refused it for good. An answer that was lost decides nothing: the proposal may have
been granted. Nor does the answer to a second attempt that came too late (INVALID_UPDATE_VERSION).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
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
from barnabas.common.types import Uuid

logger = safe_logger(__name__)

RETRY_SECONDS = 0.2
_ASK_AGAIN = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})
# Whatever came before it in the log will reach us there.
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
                logger.info("the controller could not be asked for another ISR: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except Exception:  # whatever it is, nobody would ask again if this ended here
                logger.exception("asking for another ISR failed")
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

    def _take(self, asked: dict[Partition, IsrProposal], response: AlterPartitionResponse) -> bool:
        """Take over the answers; True when something must be asked again."""
        answers = {
            (topic.topic_id, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        again = False
        for partition, proposal in asked.items():
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
