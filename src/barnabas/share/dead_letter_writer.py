"""Dead letters: records that a share group has given up are copied to its dead-letter topic before they are
archived.

The state of such records (ARCHIVING) is stored first. The leader after a crash finds it and writes them
again: a dead
letter may be duplicated, and is never missing. If the topic is missing or cannot be written, the records wait
and
count as in flight: a group with a broken dead-letter topic stops and loses nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.types import TopicPartition
from barnabas.coordination import Channel, CoordinatorRequest, Done, Retry, Tasks, pause
from barnabas.log import Origin
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.records import Record, build_batch
from barnabas.records.delays import DELIVERED_TOO_OFTEN, REJECTED, DeadLetterOrigin, dead_letters
from barnabas.replication import ALL_REPLICAS, Durability, ReplicaManager
from barnabas.share.led_partition import LedSharePartition, ShareEnvironment, ShareGroupConfigs
from barnabas.share.record_reader import read_records
from barnabas.share.runs import InFlightBatch

logger = rate_limited_logger(__name__)

MAX_AT_ONCE = 100
RETRY = Retry(first_pause=0.1, growth=2.0, longest_pause=30.0)
NAMED_BY_TOPIC = 9  # the last version of Produce that identifies topics by name
PRODUCE_TIMEOUT_MS = 10_000
GROUP_ENABLE = "errors.deadletterqueue.group.enable"

CreateTopic = Callable[[str, Mapping[str, str]], Awaitable[None]]
"""Creates a topic with these settings; KafkaError on failure. No error if it exists."""


class DeadLetterWriter:
    """Runs one task per share partition with records to write to the dead-letter topic."""

    def __init__(
        self,
        channel: Channel,
        replicas: ReplicaManager,
        durability: Durability,
        environment: ShareEnvironment,
        *,
        configs: ShareGroupConfigs,
        creates_topic: Callable[[], bool],
        create_topic: CreateTopic,
    ) -> None:
        self._replicas = replicas
        self._durability = durability
        self._environment = environment
        self._creates_topic = creates_topic
        self._channel = channel
        self._configs = configs
        self._create_topic = create_topic
        self._tasks = Tasks()
        self._writing: set[LedSharePartition] = set()

    def stop(self) -> None:
        self._tasks.stop()

    def start(self, led_partition: LedSharePartition, done: Callable[[LedSharePartition], None]) -> None:
        """Write the dead letters of a share partition, unless a task is running;

        `done` when there are none left.
        """
        if (
            led_partition not in self._writing
            and led_partition.share is not None
            and led_partition.share.archiving()
        ):
            self._writing.add(led_partition)
            self._tasks.start(self._write_all(led_partition, done))

    async def _write_all(
        self, led_partition: LedSharePartition, done: Callable[[LedSharePartition], None]
    ) -> None:
        try:
            await self._write_while_archiving(led_partition)
        finally:
            # No await after the last `archiving()`: a record that is rejected from now on needs a new task.
            self._writing.discard(led_partition)
        done(led_partition)

    async def _write_while_archiving(self, led_partition: LedSharePartition) -> None:
        attempt = 1
        while (
            led_partition.is_current
            and led_partition.share is not None
            and (runs := led_partition.share.archiving())
        ):
            run = runs[0]
            first, last = run.first, min(run.last, run.first + MAX_AT_ONCE - 1)
            try:
                last = await self._write(led_partition, run, first, last)
            except KafkaError as error:
                logger.warning(
                    "writing dead letters of %r failed; will retry: %s", led_partition.key.group_id, error
                )
                await pause(RETRY.pause_after(attempt))
                attempt += 1
                continue
            attempt = 1
            await led_partition.archive(first, last)

    async def _write(
        self, led_partition: LedSharePartition, run: InFlightBatch, first: int, last: int
    ) -> int:
        """Write the dead letters of some records; return the last offset that was written."""
        group_id = led_partition.key.group_id
        topic = self._configs.value(group_id, "errors.deadletterqueue.topic.name")
        if not topic:
            return last  # the setting was removed: drop them
        copied = self._configs.value(group_id, "errors.deadletterqueue.copy.record.enable")
        given_up = DeadLetterOrigin(
            group_id,
            led_partition.partition.topic_partition,
            run.count,
            REJECTED
            if run.rejected or run.count < led_partition.settings().delivery_limit
            else DELIVERED_TOO_OFTEN,
        )
        await self._prepare(topic)
        records, last = await read_records(self._environment.threads, led_partition.partition, first, last)
        if records:
            await self._append(topic, given_up, records, copied)
        return last

    async def _prepare(self, topic: str) -> None:
        """Create the topic if it is missing; raise KafkaError unless it exists and accepts dead letters."""
        image = self._environment.image
        if topic not in image().topics:
            if not self._creates_topic():
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic} does not exist; create it with {GROUP_ENABLE}=true",
                )
            await self._create_topic(topic, {GROUP_ENABLE: "true"})
        if image().topic_configs(topic).get(GROUP_ENABLE) != "true":
            raise KafkaError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"topic {topic} does not accept dead letters; set {GROUP_ENABLE}=true on it",
            )

    async def _append(
        self, topic: str, given_up: DeadLetterOrigin, records: list[Record], copied: bool
    ) -> None:
        """Append in one batch; if that is too large, one by one; if that is too large, without their
        contents.
        """
        letters = dead_letters(given_up, records, self._environment.clock.now_ms(), copied=copied)
        question = _Append(
            self, self._environment.image, topic, given_up.origin.partition, build_batch(letters)
        )
        try:
            await self._channel.answer(question)
        except KafkaError as error:
            if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                raise
            if len(records) > 1:
                for record in records:
                    await self._append(topic, given_up, [record], copied)
            elif copied:
                await self._append(topic, given_up, records, copied=False)
            else:
                raise

    def append_locally(self, tp: TopicPartition, batch: memoryview, done: Done[None]) -> None:
        """Append to a partition led by this broker; `done` when the records are durable."""
        partition = self._replicas.find(*tp)
        if partition is None:
            done(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not have {tp}"))
            return
        try:
            now_ms = self._environment.clock.now_ms()
            result = partition.append(batch, now_ms, ALL_REPLICAS, Origin.COORDINATOR)
        except KafkaError as error:
            done(error)
            return

        def safe(error: ErrorCode) -> None:
            done(KafkaError(error, f"dead letters in {tp} are not durable") if error else None)

        self._durability.when(partition, result.last_offset + 1, safe)


class _Append(CoordinatorRequest[None]):
    """Append a batch of dead letters to the partition with the same number as the source partition."""

    version = NAMED_BY_TOPIC

    def __init__(
        self,
        writer: DeadLetterWriter,
        image: Callable[[], MetadataImage],
        topic: str,
        origin: int,
        batch: bytearray,
    ) -> None:
        self._writer = writer
        self._image = image
        self._batch = batch
        state = image().topics.get(topic)
        self._tp = TopicPartition(topic, origin % len(state.partitions) if state is not None else 0)

    def leader(self) -> int:
        state = self._image().partition(*self._tp)
        if state is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self._tp} was deleted")
        return state.leader

    def handle_locally(self, done: Done[None]) -> None:
        self._writer.append_locally(self._tp, memoryview(self._batch), done)

    def request(self) -> ProduceRequest:
        data = PartitionProduceData(self._tp.partition, self._batch)
        topic = TopicProduceData(self._tp.topic, partition_data=[data])
        return ProduceRequest(None, ALL_REPLICAS, PRODUCE_TIMEOUT_MS, [topic])

    def read(self, response: ProduceResponse) -> None:
        error = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if error:
            raise KafkaError(error, f"the leader of {self._tp} rejected dead letters")
