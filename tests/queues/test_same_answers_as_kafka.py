"""The same talks with Apache Kafka and with Barnabas about share groups: the answers must be the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import EmbeddedBroker
from tests.apache_kafka import ApacheKafka
from tests.queues.talks import ShareTalk

pytestmark = pytest.mark.java

Scenario = Callable[[ShareTalk], Awaitable[None]]


async def stored_state(talk: ShareTalk) -> None:
    """What a leader stores comes back, newest word first, and old leaders and resets are told apart."""
    await talk.set_up("stored", "keeper")
    await talk.read("keeper", 0)
    await talk.summary("keeper", 0)
    await talk.write("keeper", (0, 0), 0, (0, 9, 2, 1))
    await talk.delete("keeper")
    await talk.initialize("keeper", 1, -1)
    await talk.summary("keeper", 0)
    await talk.read("keeper", 3)
    await talk.summary("keeper", 3)
    await talk.read("keeper", 2)
    await talk.summary("keeper", 2)
    await talk.write("keeper", (1, 2), 0, (0, 9, 2, 1))
    await talk.write("keeper", (0, 3), 0, (0, 9, 2, 1))
    await talk.write("keeper", (1, 3), 0, (0, 9, 2, 1), (10, 19, 0, 2))
    await talk.read("keeper", 3)
    await talk.write("keeper", (1, 3), 0, (5, 14, 0, 2))
    await talk.read("keeper", 3)
    await talk.write("keeper", (1, 3), 0, (10, 14, 2, 3), (15, 19, 4, 3))
    await talk.read("keeper", -1)
    await talk.write("keeper", (1, 4), 12)
    await talk.read("keeper", 3)
    await talk.read("keeper", 4)
    await talk.write("keeper", (2, 4), -1, (30, 39, 2, 1))
    await talk.read("keeper", 4)
    await talk.initialize("keeper", 0, 5)
    await talk.initialize("keeper", 3, 7)
    await talk.read("keeper", 4)
    await talk.delete("keeper")
    await talk.delete("keeper")
    await talk.read("keeper", 4)


async def bad_state_requests(talk: ShareTalk) -> None:
    await talk.set_up("bad-state", "nobody")
    for group in ("", "nobody"):
        for partition in (-1, 0, 7):
            await talk.initialize(group, 0, 0, partition)
            await talk.read(group, 0, partition)
            await talk.summary(group, 0, partition)
            await talk.delete(group, partition)
    known, talk.topic_id = talk.topic_id, bytes(15) + b"\x07"
    await talk.initialize("nobody", 0, 0)
    await talk.read("nobody", 0)
    await talk.write("nobody", (0, 0), 0)
    talk.topic_id = known


SCENARIOS: list[Scenario] = [stored_state, bad_state_requests]


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder: Path = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(folder, heap="256m") as kafka, EmbeddedBroker() as broker:
        yield kafka.bootstrap_servers, broker.bootstrap_servers


async def listen_to(address: str, scenario: Scenario) -> list[tuple[str, Any]]:
    talk = ShareTalk(address)
    try:
        await scenario(talk)
    finally:
        talk.close()
    return talk.heard


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_barnabas_answers_as_apache_kafka_does(addresses: tuple[str, str], scenario: Scenario) -> None:
    theirs, ours = (asyncio.run(listen_to(address, scenario)) for address in addresses)
    for (label, their_answer), (_, our_answer) in zip(theirs, ours, strict=True):
        assert our_answer == their_answer, label
