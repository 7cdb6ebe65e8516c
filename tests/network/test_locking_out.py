"""Clients cannot block connections between brokers."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.common.clock import ManualClock
from barnabas.config.broker import BrokerConfig
from barnabas.network.broker_addresses import LOOK_UP_SECONDS, BrokerAddresses
from barnabas.network.limits import Limits
from barnabas.network.listener import Listener
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.support.clusters import Brokers
from tests.support.server import Client, echo, frame, heartbeat, heartbeat_frame, scenario, serving
from tests.support.waiting import async_until, until

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="loopback has one address there")

HERE = "127.0.0.1"


@contextlib.contextmanager
def clients(port: int, count: int, addresses: tuple[str, ...] = ("127.0.0.2", "127.0.0.3")) -> Iterator[None]:
    opened = []
    try:
        for number in range(count):
            source = (addresses[number % len(addresses)], 0)
            opened.append(socket.create_connection((HERE, port), source_address=source))
        yield
    finally:
        for client in opened:
            client.close()


async def is_served(client: Client, name: str = "barnabas-broker-2") -> bool:
    try:
        await client.send(frame(HeartbeatRequest(group_id="g", member_id="m"), 4, 5, name))
        return await client.correlation_ids(1) == [5]
    except (ConnectionError, EOFError):
        return False


@scenario
async def test_places_are_kept_for_the_addresses_of_registered_brokers() -> None:
    limits = Limits(connections=10, connections_per_broker=3)
    async with serving(heartbeat(echo), limits=limits, brokers=frozenset({HERE})) as server:
        with clients(server.port, 12):
            await async_until(lambda: server.server.connections.refused["TEST"] == 5)
            peers = [await server.connect() for _ in range(4)]
            assert [await is_served(peer) for peer in peers] == [True, True, True, False]
            peers[0].abort()
            await server.connections_become(9)
            assert await is_served(await server.connect())


@scenario
async def test_a_limit_per_address_does_not_lock_a_broker_out() -> None:
    limits = Limits(connections_per_address=4, connections_per_broker=2)
    async with serving(heartbeat(echo), limits=limits, brokers=frozenset({HERE})) as server:
        with clients(server.port, 4, (HERE,)):
            await server.connections_become(4)
            peers = [await server.connect() for _ in range(3)]
            assert [await is_served(peer) for peer in peers] == [True, True, False]


@scenario
async def test_client_next_to_a_broker_does_not_take_its_address() -> None:
    limits = Limits(connections_per_address=1, connections_per_broker=1)
    clock = ManualClock()
    async with serving(heartbeat(echo), limits=limits, brokers=frozenset({HERE}), clock=clock) as server:
        connections = server.server.connections
        server.server.listeners[0].serves_brokers = True
        await server.connect()
        await server.connections_become(1)
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        assert await client.correlation_ids(1) == [1]
        connections.close_reserved_clients(clock.monotonic())
        assert await client.is_closed()
        silent = await server.connect()
        await server.connections_become(2)
        clock.advance(4900)
        connections.close_reserved_clients(clock.monotonic())
        assert len(connections) == 2
        clock.advance(200)
        connections.close_reserved_clients(clock.monotonic())
        assert await silent.is_closed()
        broker = await server.connect()
        assert await is_served(broker)
        connections.close_reserved_clients(clock.monotonic())
        assert await is_served(broker)
        assert connections.closed == {"kept for brokers": 2}
        broker.abort()
        await server.connections_become(1)
        server.server.listeners[0].serves_brokers = False
        pretender = await server.connect()
        assert await is_served(pretender)
        connections.close_reserved_clients(clock.monotonic())
        assert await pretender.is_closed()


@scenario
async def test_a_listener_for_brokers_alone_is_counted_apart() -> None:
    own = Listener("BROKERS", HERE, 0)
    limits = Limits(connections=5, connections_per_second=1e9)
    async with serving(heartbeat(echo), limits=limits, listener_of_brokers=own) as server:
        with clients(server.port, 7):
            await async_until(lambda: server.server.connections.refused["TEST"] == 2)
            with clients(own.port, 7):
                await async_until(lambda: server.server.connections.refused["BROKERS"] == 2)
                assert len(server.server.connections) == 10


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, None),
        ({"listeners": "A://:1,B://:2"}, None),
        ({"listeners": "A://:1,B://:2", "inter.broker.listener.name": "b"}, "B"),
        ({"listeners": "B://:2", "inter.broker.listener.name": "B"}, None),
    ],
)
def test_brokers_have_a_listener_for_themselves_if_one_was_named_and_clients_have_another(
    settings: dict[str, str], name: str | None
) -> None:
    protocols = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT"}
    assert BrokerConfig.load({**protocols, **settings}).listener_of_brokers_alone == name


@scenario
async def test_brokers_that_register_a_name_are_known_by_its_addresses() -> None:
    clock = ManualClock()
    hosts = ["localhost", "10.0.0.7", "no.such.host.invalid"]
    brokers = BrokerAddresses(lambda: hosts, clock.monotonic)
    assert len(brokers) == 3
    assert "10.0.0.7" in brokers
    assert HERE not in brokers  # the lookup has just started
    await async_until(lambda: not brokers._tasks)
    assert HERE in brokers
    assert "10.0.0.8" not in brokers
    assert not brokers._tasks
    clock.advance(round(LOOK_UP_SECONDS * 1000) + 1)
    assert HERE in brokers
    assert brokers._tasks  # names move
    await async_until(lambda: not brokers._tasks)


def test_a_broker_comes_back_to_one_that_is_full_of_clients(tmp_path: Path) -> None:
    settings = {"max.connections": "30", "max.connections.per.ip": "15"}
    with Brokers(tmp_path, 2, settings) as brokers:
        first = brokers.brokers[1]
        with clients(first.listeners[0].port, 40):
            until(lambda: first.sockets.connections.refused.total() > 0)
            brokers.stop(2)
            second = brokers.start(2)
            answer = brokers.run(second.peers.send(1, MetadataRequest(topics=[])))
            assert {broker.node_id for broker in answer.brokers} == {1, 2}
