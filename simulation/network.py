"""The network between brokers: every request is encoded, travels, is served, and its answer travels back.

What is under way belongs to no process: it arrives, or is lost, whatever becomes of the one who sent it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, Any

from barnabas.broker.broker import Broker
from barnabas.cluster.peers import Answer
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.api import RESPONSES, ApiKey
from barnabas.protocol.codec import decode_whole, encoder
from barnabas.protocol.schema import Message
from barnabas.security.context import RequestContext
from barnabas.security.principal import ANONYMOUS
from simulation.loop import VirtualHandle, VirtualLoop

if TYPE_CHECKING:
    from simulation.brokers import SimulatedBroker

CLIENT = 0  # the number of all clients
REPEATED = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
"""What must not do harm when it arrives twice, or seconds after its sender gave it up. A plain commit of an offset
does: the coordinator cannot know that a later one was sent before."""

TIMEOUT = 1.0  # seconds until a request that was lost is given up
MAX_SERVICE = 5 * TIMEOUT  # and one that arrived
DELAYS = (0.0005, 0.001, 0.001, 0.002, 0.002, 0.005, 0.02, 0.1)
"""Mostly a millisecond, now and then much longer."""
LATE = ((0.0, 0.8), (0.0, 0.8), (1.0, 4.0))
"""Seconds by which a repeated request follows the first, or a request arrives that its sender has given up."""
LATENESS = (0.0, 0.3, 1.0)

# All come to the one listener that a simulated cluster has.
OF_SIMULATED = RequestContext(ANONYMOUS, "SIMULATED", "simulated", client_id="simulated", is_privileged=True)

logger = logging.getLogger(__name__)


class Network:
    def __init__(self, chance: random.Random, loop: VirtualLoop) -> None:
        self.chance = chance
        self.loop = loop
        self.servers: dict[int, SimulatedBroker] = {}
        self.cuts: set[tuple[int, int]] = set()
        """Pairs (from, to) between which nothing gets through."""
        self.loss = 0.0
        self.duplication = 0.0
        self.lateness = chance.choice(LATENESS)
        """How many of the requests that seem lost arrive after all, and of those in REPEATED arrive again, late."""
        self._context = Context()
        self._services: dict[int, dict[_Service, None]] = {}  # sets would be dropped in no certain order

    def delay(self) -> float:
        return DELAYS[int(self.chance.random() * len(DELAYS))]

    def mend(self) -> None:
        """From now on everything arrives, and once."""
        self.cuts.clear()
        self.loss = self.duplication = self.lateness = 0.0

    def disconnect(self, number: int) -> None:
        """A process is gone: what it was serving is never answered."""
        self.servers.pop(number, None)
        for service in list(self._services.pop(number, {})):
            service.drop()

    def send(self, source: int, target: int, request: Message, version: int | None = None) -> Awaitable[Any]:
        return _Exchange(self, source, target, request, version).answer

    def travel(
        self,
        source: int,
        target: int,
        arrive: Callable[[], None],
        get_lost: Callable[[], None],
        arrive_late: Callable[[], None] | None = None,
    ) -> None:
        if (source, target) in self.cuts or self.chance.random() < self.loss:
            self.later(TIMEOUT, get_lost)
            if arrive_late is not None and self.chance.random() < self.lateness:
                self.arrive_late(TIMEOUT, arrive_late)
        else:
            self.later(self.delay(), arrive)

    def arrive_late(self, since: float, arrive: Callable[[], None]) -> None:
        self.later(since + self.chance.uniform(*self.chance.choice(LATE)), arrive)

    def later(self, seconds: float, callback: Callable[[], None]) -> VirtualHandle:
        return self.loop.call_at(self.loop.now + seconds, callback, context=self._context)

    def serve(self, target: int, request: Message, version: int, served: Served) -> None:
        server = self.servers.get(target)
        if server is None:
            served(None)
            return
        # What a server does with a request's bytes must not be seen when it is sent again.
        copy = decode_whole(type(request), version, _bytes(request, version))
        services = self._services.setdefault(target, {})
        service = _Service(server, copy, version, services, served)
        services[service] = None
        self.loop.call_soon(service.begin, context=server.process.context)


Served = Callable[[bytearray | None], None]
"""Told the bytes of an answer, or None when there will never be one."""


class _Exchange:
    """A request on its way there, and its answer on the way back: `answer` is that, or why there is none."""

    __slots__ = (
        "_data",
        "_give_up_timer",
        "_network",
        "_request",
        "_source",
        "_target",
        "_version",
        "answer",
    )

    def __init__(
        self, network: Network, source: int, target: int, request: Message, version: int | None
    ) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._request = request
        self._version = version
        self._give_up_timer: VirtualHandle | None = None
        self._data: bytearray | None = None
        self.answer: asyncio.Future[Any] = network.loop.create_future()
        arrive_late = self._arrive_again if request.api_key in REPEATED else None
        network.travel(source, target, self._arrive, self._give_up, arrive_late)

    def _arrive(self) -> None:
        network, request, target = self._network, self._request, self._target
        server = network.servers.get(target)
        if server is None:
            self._give_up()
            return
        version = self._version
        if version is None:
            version = self._version = server.dispatcher.handlers[request.api_key].max_version
        if request.api_key in REPEATED:
            if network.chance.random() < network.duplication:
                network.later(network.delay(), self._arrive_again)
            if network.chance.random() < network.lateness:
                network.arrive_late(0.0, self._arrive_again)
        self._give_up_timer = network.later(MAX_SERVICE, self._give_up)
        network.serve(target, request, version, self._served)

    def _arrive_again(self) -> None:
        """Nobody waits for the answer."""
        server = self._network.servers.get(self._target)
        if server is not None:
            version = self._version
            if version is None:
                version = server.dispatcher.handlers[self._request.api_key].max_version
            self._network.serve(self._target, self._request, version, _forget)

    def _served(self, data: bytearray | None) -> None:
        assert self._give_up_timer is not None
        self._give_up_timer.cancel()
        if data is None:
            self._give_up()
        else:
            self._data = data
            self._network.travel(self._target, self._source, self._bring, self._give_up)

    def _bring(self) -> None:
        if not self.answer.done():
            assert self._version is not None
            response = RESPONSES[self._request.api_key]
            self.answer.set_result(decode_whole(response, self._version, self._data))

    def _give_up(self) -> None:
        if not self.answer.done():
            text = f"broker {self._target} does not answer"
            self.answer.set_exception(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text))


class _Service:
    """A request that has arrived, as handlers see it. They are called as the dispatcher calls them: their first world
    at once, and in a task only those that are coroutines."""

    __slots__ = (
        "_coroutine",
        "_is_over",
        "_message",
        "_served",
        "_server",
        "_services",
        "_task",
        "api_key",
        "client_wait",
        "connection",
        "context",
        "is_large",
        "time_budget",
        "version",
    )  # fmt: skip

    is_abandoned = False

    def __init__(
        self,
        server: Broker,
        message: Message,
        version: int,
        services: dict[_Service, None],
        served: Served,
    ) -> None:
        self._server = server
        self._message = message
        self._services = services  # of the same server: this one is among them until it is over
        self._served = served
        self._is_over = False
        self._task: asyncio.Task[None] | None = None
        self._coroutine: Any = None
        self.api_key = message.api_key
        self.version = version
        self.context = OF_SIMULATED
        self.connection = None
        self.client_wait = self.time_budget = 0.0
        self.is_large = False

    @property
    def client_id(self) -> str | None:
        return self.context.client_id

    def begin(self) -> None:
        if self._is_over:
            return
        handler: Any = self._server.dispatcher.handlers[self.api_key].function
        try:
            response = handler(self._server, self, self._message)
            if isinstance(response, Message):
                self.respond(response)
            elif response is not None:
                self._coroutine = response
                self._task = asyncio.get_running_loop().create_task(self._finish(response))
        except Exception as error:
            self._fail(error)

    async def _finish(self, coroutine: Coroutine[Any, Any, Message | None]) -> None:
        try:
            response = await coroutine
            if response is not None:
                self.respond(response)
        except Exception as error:
            self._fail(error)

    def respond(self, response: Message) -> None:
        if not self._is_over:
            self._end_with(_bytes(response, self.version))

    def drop(self) -> None:
        """The server is gone."""
        if not self._is_over:
            self._end_with(None)
            if self._task is not None:
                self._task.cancel()
                if getcoroutinestate(self._coroutine) == CORO_CREATED:
                    self._coroutine.close()  # its task never begins

    def _fail(self, error: Exception) -> None:
        """As with the dispatcher, a handler that raises is a mistake of ours."""
        if not self._is_over:
            logger.error("%s failed", self._message.NAME, exc_info=error)
            self._end_with(None)

    def _end_with(self, data: bytearray | None) -> None:
        self._is_over = True
        self._services.pop(self, None)
        self._served(data)


class SimulatedPeers:
    def __init__(self, network: Network, node_id: int, answer: Answer) -> None:
        self._network = network
        self._node_id = node_id
        self._answer = answer

    async def send(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        if broker_id == self._node_id:
            return await self._answer(request)
        return await self._network.send(self._node_id, broker_id, request, version)

    async def serves(self, broker_id: int, api_key: ApiKey) -> bool:
        return True  # all simulated brokers are of this version

    def close(self) -> None:
        """What is on its way arrives, or is lost."""


def _forget(data: bytearray | None) -> None:
    """The answer to a request that came twice is not awaited."""


def _bytes(message: Message, version: int) -> bytearray:
    parts: list[Any] = []
    rest = encoder(type(message), version)(message, bytearray(), parts)
    if not parts:
        return rest
    return bytearray().join(part.read() if hasattr(part, "read") else part for part in (*parts, rest))
