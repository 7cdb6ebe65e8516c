"""Several registries on one topic: one writes, the others forward; kill -9 and an old leader give no id twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from barnabas.client.addresses import Address
from barnabas.client.cluster import Client
from barnabas.client.producer import Producer
from barnabas.services.registry.leadership import Identity, choose, read_identity
from barnabas.services.registry.server import RegistryServer, RegistrySettings
from barnabas.services.registry.topic import UnsuitableTopicError
from barnabas.testing import EmbeddedBroker
from tests.services.registry.rest import NEW_FIELDS, Answer, Rest

ONE, TWO = Identity("a", 1), Identity("b", 2)


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
    """The one that leads, once all say the same."""
    async with asyncio.timeout(60):
        while True:
            leaders = {one.store.leadership.leader for one in servers if one.store.leadership}
            found = [one for one in servers if leaders == {one.identity}]
            if found:
                return found[0]
            await asyncio.sleep(0.05)


def enum(number: int) -> str:
    return json.dumps({"type": "enum", "name": f"E{number}", "symbols": ["A"]})


def test_the_first_address_leads_and_stays_when_another_joins() -> None:
    assert choose({"x": TWO, "y": ONE}, None)["master"] == "y"
    assert choose({"x": TWO, "y": ONE}, TWO)["master"] == "x"
    assert choose({"x": None}, None)["master"] is None
    assert read_identity(ONE.to_json()) == ONE
    assert choose({"x": Identity("a", 1, eligible=False)}, None)["master"] is None


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
    """Both believe to lead. The older one is fenced, reads what the newer wrote, and goes on above it."""

    async def work() -> None:
        async with registries(broker, 2, "fencing") as servers:
            leader = await agreed(servers)
            other = next(one for one in servers if one is not leader)
            first = await register(leader, "a", enum(1))
            assert other.store.leadership is not None
            other.store.leadership.leader = (
                other.identity
            )  # what a network that is cut in two makes it believe
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
            end = writer._transactions.end

            async def abort(*args: object, committed: bool) -> None:
                await end(*args, committed=False)  # type: ignore[arg-type]

            writer._transactions.end = abort  # type: ignore[method-assign, assignment]
            offset = await writer.write([(key, value)])
            writer._transactions.end = end  # type: ignore[method-assign]
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
