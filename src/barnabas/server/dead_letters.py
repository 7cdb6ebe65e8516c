"""Writing dead letters: what a share group has given up goes to its dead-letter topic before it is archived.

The state of such records (ARCHIVING) is stored first. Whoever leads the partition after a crash finds it and writes
them again: a dead letter may be there twice, and is never missing. Should the topic not be there, or not be writable,
the records wait, and count as work in hand: a group with a broken dead-letter topic comes to a halt, and loses nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.controller.topics import NewTopic
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.log import Origin
from barnabas.log_lines import limited_logger
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.queues.dead_letters import DELIVERED_TOO_OFTEN, REJECTED, GivenUp, dead_letters
from barnabas.queues.runs import Run
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.replication.partition import ALL_REPLICAS
from barnabas.server.forwarding import create_topics
from barnabas.server.share_records import read_records

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.share_partition import LedSharePartition

logger = limited_logger(__name__)

MOST_AT_ONCE = 100
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 30.0
NAMED_BY_TOPIC = 9  # a version of Produce that names topics by their names
PRODUCE_TIMEOUT_MS = 10_000
GROUP_ENABLE = "errors.deadletterqueue.group.enable"


class DeadLetters:
    """One task for each share partition that has records to bury, as long as it has some."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: dict[LedSharePartition, asyncio.Task[None]] = {}

    def stop(self) -> None:
        for task in list(self._tasks.values()):
            task.cancel()

    def bury(self, led: LedSharePartition) -> None:
        """See to the records of a share partition that are dying, unless somebody is about it."""
        if led not in self._tasks and led.share is not None and led.share.dying():
            self._tasks[led] = asyncio.get_running_loop().create_task(self._see_to(led))

    async def _see_to(self, led: LedSharePartition) -> None:
        try:
            await self._work(led)
        finally:
            # Right after the last look at what is dying: what begins to die from now on needs a task of its own.
            self._tasks.pop(led, None)
        self._broker.coordinators.share_partitions.forget_if_unused(led)

    async def _work(self, led: LedSharePartition) -> None:
        pause = FIRST_PAUSE_S
        while led.is_current and led.share is not None and (runs := led.share.dying()):
            run = runs[0]
            first, last = run.first, min(run.last, run.first + MOST_AT_ONCE - 1)
            try:
                last = await self._write(led, run, first, last)
            except KafkaError as error:
                logger.warning("%r has dead letters that cannot be written yet: %s", led.key.group_id, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                continue
            pause = FIRST_PAUSE_S
            await led.buried(first, last)

    async def _write(self, led: LedSharePartition, run: Run, first: int, last: int) -> int:
        """Write the dead letters of some records; up to where that was done."""
        configs, group_id = self._broker.coordinators.groups.configs, led.key.group_id
        topic = configs.value(group_id, "errors.deadletterqueue.topic.name")
        if not topic:
            return last  # there is none any more: they are dropped
        copied = configs.value(group_id, "errors.deadletterqueue.copy.record.enable")
        given_up = GivenUp(
            group_id,
            led.partition.topic_partition,
            run.count,
            REJECTED if run.rejected or run.count < led.settings().delivery_limit else DELIVERED_TOO_OFTEN,
        )
        await self._prepare(topic)
        records, last = await read_records(self._broker, led.partition.log, first, last)
        if records:
            await self._append(topic, given_up, records, copied)
        return last

    async def _prepare(self, topic: str) -> None:
        broker = self._broker
        if topic not in broker.image.topics:
            if not broker.config["errors.deadletterqueue.auto.create.topics.enable"]:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"there is no topic {topic}; create it with {GROUP_ENABLE}=true",
                )
            failure = (await create_topics(broker, [NewTopic(topic, configs={GROUP_ENABLE: "true"})]))[topic]
            if failure is not None and failure.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise failure
        if broker.image.topic_configs(topic).get(GROUP_ENABLE) != "true":
            raise KafkaError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"{topic} is not meant for dead letters; set {GROUP_ENABLE}=true on it",
            )

    async def _append(self, topic: str, given_up: GivenUp, records: list[Record], copied: bool) -> None:
        now_ms = self._broker.clock.now_ms()
        letters = dead_letters(given_up, records, now_ms, copied=copied)
        try:
            await self._append_batch(topic, given_up.origin.partition, letters)
        except KafkaError as error:
            if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                raise
            if len(records) > 1:
                for record in records:
                    await self._append(topic, given_up, [record], copied)
            elif copied:  # where it comes from is better than nothing
                await self._append(topic, given_up, records, copied=False)
            else:
                raise

    async def _append_batch(self, topic: str, origin: int, letters: list[Record]) -> None:
        state = self._broker.image.topics.get(topic)
        if state is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} is gone")
        index = origin % len(state.partitions)
        batch = build_batch(letters)
        leader = state.partitions[index].leader
        if leader == self._broker.node_id:
            await self._append_here(topic, index, batch)
        else:
            await self._send(leader, topic, index, batch)

    async def _append_here(self, topic: str, index: int, batch: bytearray) -> None:
        broker = self._broker
        partition = broker.replicas.find(topic, index)
        if partition is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is not here")
        result = partition.append(memoryview(batch), broker.clock.now_ms(), ALL_REPLICAS, Origin.COORDINATOR)
        safe: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def answered(error: ErrorCode) -> None:
            if not safe.done():
                safe.set_result(error)

        broker.when_safe(partition, result.last_offset + 1, answered)
        if error := await safe:
            raise KafkaError(error, f"dead letters in {topic}-{index} are not safe")

    async def _send(self, leader: int, topic: str, index: int, batch: bytearray) -> None:
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(index, batch)])
        request = ProduceRequest(None, ALL_REPLICAS, PRODUCE_TIMEOUT_MS, [data])
        response = await self._broker.peers.send(leader, request, NAMED_BY_TOPIC)
        error = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if error:
            raise KafkaError(error, f"the leader of {topic}-{index} refuses dead letters")
