"""Retries of the client: error injection, and restarts of a real broker."""

import asyncio
import time

import pytest

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.client.errors import CannotConnectError, ClientError, RequestTimeoutError, UnsupportedApiError
from barnabas.client.offsets import end_offsets
from barnabas.client.producer import Producer, ProducerSettings
from barnabas.client.retry import RetryPolicy, retry
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.testing import EmbeddedBroker
from tests.support.programs import free_port


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "UNKNOWN_PRODUCER_ID", "NOT_ENOUGH_REPLICAS"]
)
def test_producer_retries_after_a_transient_error(embedded: EmbeddedBroker, error: str) -> None:
    topic = embedded.create_topic()

    async def main() -> None:
        async with Client(embedded.bootstrap_servers) as client, Producer(client) as producer:
            embedded.inject("PRODUCE", error, 2)
            assert (await producer.send(topic, b"x")).offset == 0

    asyncio.run(main())


def test_producer_fails_immediately_on_a_permanent_error(embedded: EmbeddedBroker) -> None:
    topic = embedded.create_topic()

    async def main() -> None:
        async with Client(embedded.bootstrap_servers) as client:
            producer = Producer(client)
            embedded.inject("PRODUCE", "TOPIC_AUTHORIZATION_FAILED")
            with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                await producer.send(topic, b"x")
            assert (await producer.send(topic, b"y")).offset == 0
            await producer.close(flush=False)

    asyncio.run(main())


def test_a_producer_gives_up_when_the_delivery_timeout_has_passed(embedded: EmbeddedBroker) -> None:
    topic = embedded.create_topic()

    async def main() -> None:
        async with Client(embedded.bootstrap_servers) as client:
            producer = Producer(client, ProducerSettings(delivery_timeout=0.2))
            embedded.inject("PRODUCE", "NOT_ENOUGH_REPLICAS", 100)
            start = time.monotonic()
            with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
                await producer.send(topic, b"x")
            assert time.monotonic() - start < 60  # the default of delivery_timeout is two minutes
            await producer.close(flush=False)

    try:
        asyncio.run(main())
    finally:
        embedded.restart()  # drops the remaining injected errors


def test_consumer_continues_after_a_transient_error(embedded: EmbeddedBroker) -> None:
    topic = embedded.create_topic()

    async def main() -> None:
        async with Client(embedded.bootstrap_servers) as client, Producer(client) as producer:
            await producer.send(topic, b"x")
            embedded.inject("FETCH", "NOT_LEADER_OR_FOLLOWER", 2)
            async with Consumer(client, {TopicPartition(topic, 0): 0}) as consumer:
                assert [record.value for record in await consumer.poll(60)] == [b"x"]

    asyncio.run(main())


def test_producer_and_consumer_survive_a_restart_without_loss_or_duplicates() -> None:
    async def main(broker: EmbeddedBroker, topic: str) -> None:
        tp = TopicPartition(topic, 0)
        async with (
            Client(broker.bootstrap_servers) as client,
            Producer(client) as producer,
            Consumer(client, {tp: 0}) as consumer,
        ):
            await producer.send(topic, b"0")
            assert len(await consumer.poll(60)) == 1
            restarting = asyncio.create_task(asyncio.to_thread(broker.restart))
            sent = [await producer.send(topic, b"%d" % number) for number in range(1, 50)]
            await restarting
            assert [delivered.offset for delivered in sent] == list(range(1, 50))
            read: list[bytes | None] = []
            async with asyncio.timeout(60):
                while len(read) < 49:
                    read += [record.value for record in await consumer.poll(5)]
            assert read == [b"%d" % number for number in range(1, 50)]
            assert (await end_offsets(client, [tp]))[tp] == 50

    with EmbeddedBroker() as broker:
        asyncio.run(main(broker, broker.create_topic()))


def test_the_first_of_several_bootstrap_servers_may_be_down(embedded: EmbeddedBroker) -> None:
    async def main() -> None:
        servers = f"127.0.0.1:{free_port()},{embedded.bootstrap_servers}"
        async with Client(servers) as client:
            assert (await admin.describe_cluster(client)).error_code == ErrorCode.NONE

    asyncio.run(main())


def test_unreachable_brokers_are_reported_with_the_addresses() -> None:
    async def main() -> None:
        port = free_port()
        async with Client(f"127.0.0.1:{port}") as client:
            with pytest.raises(CannotConnectError, match=f"127.0.0.1:{port}"):
                await client.all_topics()

    asyncio.run(main())


class Attempts:
    """Fails with each of some errors, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.recovered: list[Exception] = []

    async def __call__(self) -> str:
        if self._errors:
            raise self._errors.pop(0)
        return "done"

    async def recover(self, error: Exception) -> None:
        self.recovered.append(error)


def test_attempts_are_repeated_until_one_succeeds() -> None:
    errors = [RequestTimeoutError("late"), KafkaError(ErrorCode.NOT_COORDINATOR, "moved")]
    attempts = Attempts(*errors)
    assert asyncio.run(retry(attempts, RetryPolicy(60), attempts.recover)) == "done"
    assert attempts.recovered == errors


@pytest.mark.parametrize(
    "error",
    [UnsupportedApiError("no such API"), KafkaError(ErrorCode.INVALID_REQUEST, "wrong"), ValueError()],
)
def test_permanent_errors_are_raised_without_a_retry(error: Exception) -> None:
    attempts = Attempts(error)
    with pytest.raises(type(error)):
        asyncio.run(retry(attempts, RetryPolicy(60), attempts.recover))
    assert attempts.recovered == []


def test_after_the_deadline_the_last_error_is_raised() -> None:
    with pytest.raises(ClientError, match="still late"):
        asyncio.run(retry(Attempts(RequestTimeoutError("still late")), RetryPolicy(0)))


def test_progress_resets_the_timeout() -> None:
    patience = RetryPolicy(60)
    before = patience.deadline
    patience.reset()
    assert patience.deadline is not before
    assert not patience.deadline.passed
