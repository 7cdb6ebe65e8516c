"""A whole broker, and connections that send it whatever bytes a test likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from barnabas.broker.broker import Broker
from barnabas.common.errors import ErrorCode
from barnabas.config.broker import BrokerConfig
from barnabas.protocol.api import response_class
from barnabas.protocol.framing import decode_response
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.schema import Message
from tests.network.harness import Client, frame
from tests.support.waiting import async_eventually

NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class RawBroker:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.clients: list[Client] = []

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.broker.listeners[0].port))
        self.clients.append(client)
        return client

    async def coordinator_answers(
        self, client: Client, request: Message, version: int, key: str, kind: int
    ) -> Any:
        """An answer of a coordinator, whose topic is created at the first question and loaded a moment later."""
        await ask(client, FindCoordinatorRequest(key=key, key_type=kind), 3)
        return await async_eventually(
            lambda: ask(client, request, version), lambda answer: answer.error_code not in NOT_YET
        )


SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # Files take time to create.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


@asynccontextmanager
async def raw_broker(folder: Path, **settings: str) -> AsyncIterator[RawBroker]:
    """Names of settings with `_` in place of dots."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    broker = Broker(BrokerConfig.load({**SETTINGS, "log.dirs": str(folder), **given}))
    await broker.start()
    raw = RawBroker(broker)
    try:
        yield raw
    finally:
        for client in raw.clients:
            client.abort()
        await broker.stop()


async def ask(client: Client, request: Message, version: int, client_id: str = "test") -> Any:
    await client.send(frame(request, version, client_id=client_id))
    return decoded(request.api_key, version, await client.response())


def decoded(api_key: int, version: int, answer: bytes) -> Any:
    """A response without its length."""
    return decode_response(api_key, version, response_class(api_key), memoryview(answer))[1]
