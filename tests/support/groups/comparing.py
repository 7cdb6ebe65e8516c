"""The same conversation with Apache Kafka and Barnabas must get the same responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from barnabas.testing import EmbeddedBroker
from tests.support.groups.conversations import Talk
from tests.support.kafka.broker import ApacheKafka
from tests.support.server import brokers_let_in

TalkT = TypeVar("TalkT", bound=Talk)
Addresses = tuple[str, str]
"""Of Apache Kafka, and of Barnabas."""


@contextmanager
def kafka_and_barnabas(folder: Path, settings: Mapping[str, str]) -> Iterator[Addresses]:
    with (
        ApacheKafka(folder, heap="256m", settings=settings) as kafka,
        EmbeddedBroker(settings=dict(settings)) as broker,
        brokers_let_in(broker),  # as Kafka without an authorizer allows everything
    ):
        yield kafka.bootstrap_servers, broker.bootstrap_servers


async def listen(talk: TalkT, scenario: Callable[[TalkT], Awaitable[None]]) -> list[tuple[str, Any]]:
    """Responses of a broker with their requests."""
    try:
        await scenario(talk)
    finally:
        talk.close()
    return talk.heard


def assert_same_answers(
    addresses: Addresses, begin: Callable[[str], TalkT], scenario: Callable[[TalkT], Awaitable[None]]
) -> None:
    """Both in parallel: a scenario waits for session timeouts and background work."""
    with ThreadPoolExecutor(2) as threads:
        expected, ours = threads.map(lambda address: asyncio.run(listen(begin(address), scenario)), addresses)
    for (question, their_answer), (_, our_answer) in zip(expected, ours, strict=True):
        assert our_answer == their_answer, question
