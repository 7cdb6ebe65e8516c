"""The network between brokers: every request is encoded, travels, is served, and its answer travels back."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.api import RESPONSES, ApiKey
from barnabas.protocol.codec import decode_whole, encode_parts
from barnabas.protocol.schema import Message
from barnabas.server.broker import Broker
from barnabas.server.local_requests import answer

if TYPE_CHECKING:
    from barnabas.testing.simulation.brokers import SimulatedBroker

CLIENT = 0  # the number of whoever is no broker
REPEATED = frozenset({ApiKey.PRODUCE, ApiKey.ALTER_PARTITION, ApiKey.BROKER_HEARTBEAT})
"""What must not do harm when it arrives twice; a commit of an offset, for one, is as late as it comes."""

PATIENCE = 1.0  # seconds until a request without an answer is given up


class Network:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.servers: dict[int, SimulatedBroker] = {}
        self.cuts: set[tuple[int, int]] = set()
        """Pairs (from, to) between which nothing gets through."""
        self.loss = 0.0
        self.duplication = 0.0
        self._serving: dict[int, dict[asyncio.Task[bytearray], None]] = {}

    def delay(self) -> float:
        """Mostly a millisecond, now and then much longer."""
        return self._chance.choice((0.0005, 0.001, 0.001, 0.002, 0.002, 0.005, 0.02, 0.1))

    def disconnect(self, number: int) -> None:
        """A process is gone: what it was serving is never answered."""
        self.servers.pop(number, None)
        for task in list(self._serving.pop(number, {})):
            task.cancel()

    async def send(self, source: int, target: int, request: Message, version: int | None = None) -> Any:
        await self._travel(source, target)
        server = self.servers.get(target)
        if server is None:
            raise _unreachable(target)
        if version is None:
            version = server.dispatcher.handlers[request.api_key].max_version
        if self._chance.random() < self.duplication and request.api_key in REPEATED:
            asyncio.get_running_loop().call_later(self.delay(), lambda: self._serve(target, request, version))
        serving = self._serve(target, request, version)
        done, _ = await asyncio.wait({serving}, timeout=PATIENCE * 5) if serving is not None else ((), ())
        if not done or serving is None or serving.cancelled():
            raise _unreachable(target)
        data = serving.result()
        await self._travel(target, source)
        return decode_whole(RESPONSES[request.api_key], version, memoryview(data))

    def _serve(self, target: int, request: Message, version: int) -> asyncio.Task[bytearray] | None:
        server = self.servers.get(target)
        if server is None:
            return None
        # What a server does with a request's bytes must not be seen by whoever sends it again.
        copy = decode_whole(type(request), version, memoryview(_bytes(request, version)))
        loop = asyncio.get_running_loop()
        task = loop.create_task(_answer(server, copy, version), context=server.process.context)
        tasks = self._serving.setdefault(target, {})  # a set would be cancelled in no certain order
        tasks[task] = None
        task.add_done_callback(lambda task: tasks.pop(task, None))
        return task

    async def _travel(self, source: int, target: int) -> None:
        if (source, target) in self.cuts or self._chance.random() < self.loss:
            await asyncio.sleep(PATIENCE)
            raise _unreachable(target)
        await asyncio.sleep(self.delay())


class SimulatedPeers:
    def __init__(self, network: Network, broker: Broker) -> None:
        self._network = network
        self._broker = broker

    async def send(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        if broker_id == self._broker.node_id:
            return await answer(self._broker, request)
        return await self._network.send(self._broker.node_id, broker_id, request, version)


async def _answer(server: Broker, request: Message, version: int) -> bytearray:
    return _bytes(await answer(server, request), version)


def _bytes(message: Message, version: int) -> bytearray:
    parts = encode_parts(message, version)
    return bytearray().join(part.read() if hasattr(part, "read") else part for part in parts)


def _unreachable(target: int) -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {target} does not answer")
