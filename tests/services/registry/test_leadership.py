"""Several registries on one topic: one writes, the others forward; kill -9 and stale leaders assign no id twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from barnabas.client.addresses import Address
from barnabas.client.cluster import Client
from barnabas.client.producer import Producer
from barnabas.client.producing.producer_ids import ProducerIdentity
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.api import ApiKey
from barnabas.services.registry.leadership import RegistryIdentity, choose, read_identity
from barnabas.services.registry.server import RegistryServer, RegistrySettings
from barnabas.services.registry.state import RegistryState
from barnabas.services.registry.topic import SchemaWriter, UnsuitableTopicError
from barnabas.testing import EmbeddedBroker
from tests.support.proxies import FrameProxy, proxied_broker
from tests.support.registry import NEW_FIELDS, Answer, Rest
from tests.support.topics import read_committed
from tests.support.waiting import async_until

ONE, TWO = RegistryIdentity("a", 1), RegistryIdentity("b", 2)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as made:
        yield made


@asynccontextmanager
async def registries(broker: EmbeddedBroker, count: int, name: str) -> AsyncIterator[list[RegistryServer]]:
    settings = RegistrySettings(
        broker.bootstrap_servers, listen=Address("127.0.0.1", 0), topic=f"_{name}", group=name
    )
    made = [RegistryServer(settings) for _ in range(count)]
    try:
        for one in made:
            await one.start()
        yield made
    finally:
        for one in made:
            await one.stop()


async def register(server: RegistryServer, subject: str, schema: str) -> int:
    def post() -> int:
        with Rest(server.url) as rest:
            answer = rest.register(subject, schema)
            assert answer.status == 200, answer
            number: int = answer.body["id"]
            return number

    return await asyncio.to_thread(post)


async def agreed(servers: list[RegistryServer]) -> RegistryServer:
    """The common leader of all registries."""

    def leading() -> list[RegistryServer]:
        leaders = {one.store.leadership.leader for one in servers if one.store.leadership}
        return [one for one in servers if leaders == {one.identity}]

    return (await async_until(leading))[0]


def enum(number: int) -> str:
    return json.dumps({"type": "enum", "name": f"E{number}", "symbols": ["A"]})


def test_the_first_address_leads_and_stays_when_another_joins() -> None:
    assert choose({"x": TWO, "y": ONE}, None)["master"] == "y"
    assert choose({"x": TWO, "y": ONE}, TWO)["master"] == "x"
    assert choose({"x": None}, None)["master"] is None
    assert read_identity(ONE.to_json()) == ONE
    assert choose({"x": RegistryIdentity("a", 1, eligible=False)}, None)["master"] is None


def test_a_change_through_any_registry_is_found_in_all(broker: EmbeddedBroker) -> None:
    async def work() -> None:
        async with registries(broker, 3, "forwarding") as servers:
            await agreed(servers)
            ids = [await register(servers[at % 3], f"s{at}", enum(at)) for at in range(6)]
            assert len(set(ids)) == 6
            again = [await register(servers[(at + 1) % 3], f"s{at}", enum(at)) for at in range(6)]
            assert again == ids

    asyncio.run(work())


def test_a_forwarded_registration_has_its_guid_too(broker: EmbeddedBroker) -> None:
    async def work() -> None:
        async with registries(broker, 2, "guids") as servers:
            leader = await agreed(servers)
            other = next(one for one in servers if one is not leader)

            def post() -> Answer:
                with Rest(other.url) as rest:
                    return rest.post("/subjects/s/versions", {"schema": enum(1)}, **NEW_FIELDS)

            assert set((await asyncio.to_thread(post)).body) == {"id", "version", "guid"}

    asyncio.run(work())


def test_a_leader_that_was_replaced_cannot_write(broker: EmbeddedBroker) -> None:
    """Both consider themselves leader. The older one is fenced, reads the newer one's records, and continues after
    them."""

    async def work() -> None:
        async with registries(broker, 2, "fencing") as servers:
            leader = await agreed(servers)
            other = next(one for one in servers if one is not leader)
            first = await register(leader, "a", enum(1))
            assert other.store.leadership is not None
            other.store.leadership.leader = other.identity  # as during a network partition
            second = await register(other, "b", enum(2))
            third = await register(leader, "c", enum(3))
            assert first < second < third

    asyncio.run(work())


def test_ids_of_aborted_records_are_not_given_again(broker: EmbeddedBroker) -> None:
    async def work() -> None:
        async with registries(broker, 1, "aborted") as (server,):
            await agreed([server])
            await register(server, "a", enum(1))
            store = server.store
            writer = store._writer
            key = b'{"keytype":"SCHEMA","subject":"ghost","version":1,"magic":1}'
            value = b'{"subject":"ghost","version":1,"id":500,"schema":"\\"int\\"","deleted":false}'
            assert writer._producer is not None
            transactions = writer._producer._transactions
            end = transactions.end

            async def abort(
                name: str, identity: ProducerIdentity, *, committed: bool, is_v2: bool
            ) -> ProducerIdentity:
                return await end(name, identity, committed=False, is_v2=is_v2)

            transactions.end = abort  # type: ignore[method-assign, assignment]
            offset = await writer.write([(key, value)])
            transactions.end = end  # type: ignore[method-assign]
            await store.reader.reached(offset)
            assert not store.state.versions("ghost")
            assert await register(server, "b", enum(2)) == 501

    asyncio.run(work())


@pytest.mark.parametrize(
    ("configs", "partitions", "text"),
    [
        ({"cleanup.policy": "delete"}, 1, "barnabas configs set"),
        ({"cleanup.policy": "compact"}, 2, "one partition"),
    ],
)
def test_a_topic_that_would_lose_schemas_is_refused(
    broker: EmbeddedBroker, configs: dict[str, str], partitions: int, text: str
) -> None:
    topic = broker.create_topic(partitions=partitions, configs=configs)

    async def work() -> None:
        settings = RegistrySettings(broker.bootstrap_servers, listen=Address("127.0.0.1", 0), topic=topic)
        with pytest.raises(UnsuitableTopicError, match=text):
            async with RegistryServer(settings):
                pass

    asyncio.run(work())


def test_records_of_others_are_read_and_their_keys_are_kept(broker: EmbeddedBroker) -> None:
    """Another spelling of a key is the same key, and is replaced under its own bytes."""

    async def work() -> None:
        topic = "_foreign"
        broker_key = b'{"magic": 1, "keytype": "SCHEMA", "version": 1, "subject": "foreign"}'
        value = b'{"subject":"foreign","version":1,"id":40,"schema":"\\"long\\"","deleted":false}'
        unknown = b'{"keytype":"SOMETHING_NEW","magic":9}'
        broker_side = asyncio.to_thread(broker.create_topic, topic, 1, {"cleanup.policy": "compact"})
        await broker_side
        async with Client(broker.bootstrap_servers) as client, Producer(client) as producer:
            await producer.send(topic, value, b"no json at all")
            await producer.send(topic, None, unknown)
            await producer.send(topic, value, broker_key)
        async with registries(broker, 1, "foreign") as (server,):
            await agreed([server])
            assert server.store.state.live("foreign")[0].id == 40
            assert await register(server, "new", enum(7)) == 41
            key = next(iter(server.store.state._raw_keys))
            assert server.store.state.key_bytes(key) == broker_key

    asyncio.run(work())


def test_a_commit_that_arrives_late_does_not_end_the_next_write() -> None:
    async def write(broker: EmbeddedBroker, proxy: FrameProxy, topic: str) -> None:
        async with Client(broker.bootstrap_servers) as client:
            writer = SchemaWriter(client, TopicPartition(topic, 0))
            await writer.begin()
            late = proxy.hold(ApiKey.END_TXN)
            await writer.write([(b"first", b"1")])
            proxy.before(ApiKey.PRODUCE, 1, late.deliver)
            await writer.write([(b"second", b"2")])
            assert writer.is_ready

    with proxied_broker() as (broker, proxy):
        topic = broker.create_topic()
        asyncio.run(write(broker, proxy, topic))
        assert [one.key() for one in read_committed(broker.bootstrap_servers, topic)] == [b"first", b"second"]


BAD_RECORDS = [
    (b'{"keytype":"SCHEMA","subject":"bad","version":1,"magic":1}', value)
    for value in (
        b'{"id":1,"schema":"x","schemaType":{}}',
        b'{"id":1,"schema":"x","schemaType":["AVRO"]}',
        b'{"id":1,"schema":"\\"int\\"","references":5}',
        b'{"id":1,"schema":"\\"int\\"","references":[{"name":"x","subject":{},"version":[]}]}',
        b'{"id":1,"schema":"\\"int\\"","guid":{}}',
        b'{"id":1e999,"schema":"x"}',
        b'{"id":1,"schema":"\\"int\\"","metadata":{"x":' + b"[" * 5000,
        b"[" * 100_000,
        b"\xff\xfe",
    )
] + [
    (b'{"keytype":"CONFIG","subject":"bad","magic":0}', b'{"compatibilityLevel":{}}'),
    (b'{"keytype":"CONFIG","subject":{},"magic":0}', b"{}"),
    (b'{"keytype":"MODE","subject":"bad","magic":0}', b'{"mode":[]}'),
    (b'{"keytype":{},"magic":0}', b"{}"),
    (b'{"keytype":"DELETE_SUBJECT","subject":"bad","magic":0}', b'{"version":true}'),
    (b"[" * 100_000, b"{}"),
    (b'{"magic":0,"keytype":"NOOP"}', b"["),
]  # fmt: skip


def test_records_that_cannot_be_understood_are_skipped(broker: EmbeddedBroker) -> None:
    async def work() -> None:
        topic = "_malformed"
        await asyncio.to_thread(broker.create_topic, topic, 1, {"cleanup.policy": "compact"})
        async with Client(broker.bootstrap_servers) as client, Producer(client) as producer:
            for key, value in BAD_RECORDS:
                await producer.send(topic, value, key)
        async with registries(broker, 1, "malformed") as (server,):
            await agreed([server])
            first = await register(server, "good", enum(1))
            async with Client(broker.bootstrap_servers) as client, Producer(client) as producer:
                for key, value in BAD_RECORDS:
                    await producer.send(topic, value, key)
            assert await register(server, "good-too", enum(2)) == first + 1
            assert await register(server, "bad", enum(3)) == first + 2

    asyncio.run(work())


def test_a_record_that_the_state_stumbles_over_is_logged_and_skipped(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Any record: no writer of the topic can stop the registry with it."""
    replay = RegistryState.replay

    def stumble(state: RegistryState, key: bytes, value: bytes, producer_id: int) -> None:
        if b"stumble" in key:
            raise ZeroDivisionError("on purpose")
        replay(state, key, value, producer_id)

    monkeypatch.setattr(RegistryState, "replay", stumble)

    async def work() -> None:
        async with registries(broker, 1, "stumbling") as (server,):
            await agreed([server])
            await register(server, "stumble", enum(1))
            await register(server, "good", enum(2))

    asyncio.run(work())
    assert "ZeroDivisionError: on purpose" in caplog.text


def test_a_task_that_dies_ends_the_registry(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        died = asyncio.Event()
        settings = RegistrySettings(
            broker.bootstrap_servers, listen=Address("127.0.0.1", 0), topic="_dying", group="dying"
        )
        server = RegistryServer(settings, died.set)
        await server.start()
        try:
            await agreed([server])
            monkeypatch.setattr(server.store.reader, "_wake", None)  # an unexpected failure
            with pytest.raises(AssertionError, match="follows its topic"):
                await register(server, "a", enum(1))
            async with asyncio.timeout(60):
                await died.wait()
            assert server.is_dead
        finally:
            await server.stop()

    asyncio.run(work())


def test_a_deletion_whose_answer_was_lost_before_another_registry_led_is_not_repeated(
    broker: EmbeddedBroker,
) -> None:
    async def work() -> None:
        async with registries(broker, 1, "lost-answer") as (server,):
            await agreed([server])
            await register(server, "a", enum(1))
            writer = server.store._writer
            write = writer.write

            async def lose_the_answer(entries: list[tuple[bytes, bytes | None]]) -> int:
                writer.write = write  # type: ignore[method-assign]
                await write(entries)
                writer.give_up()
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "another registry leads")

            writer.write = lose_the_answer  # type: ignore[method-assign, assignment]
            assert await server.service.delete_subject("a", permanent=False) == [1]
            writer.write = lose_the_answer  # type: ignore[method-assign, assignment]
            assert await server.service.delete_subject("a", permanent=True) == [1]

    asyncio.run(work())
