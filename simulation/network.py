"""Network between brokers: each request is encoded, delivered and served, and its response is delivered back.

Messages in flight belong to no process: they arrive, or are lost, even if the sender dies.
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

CLIENT = 0  # node id shared by all clients
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
"""Requests that must be harmless when duplicated or delivered seconds after the sender timed out. Plain offset commits
are not: the coordinator cannot detect that a newer commit was sent earlier."""

TIMEOUT = 1.0  # seconds until the sender of a lost request times out
MAX_SERVICE = 5 * TIMEOUT  # the same for a delivered request
DELAYS = (0.0005, 0.001, 0.001, 0.002, 0.002, 0.005, 0.02, 0.1)
"""Mostly a millisecond, occasionally much longer."""
LATE = ((0.0, 0.8), (0.0, 0.8), (1.0, 4.0))
"""Delay ranges, in seconds, of a duplicate after the original, or of a request after its sender timed out."""
LATENESS = (0.0, 0.3, 1.0)

# A simulated cluster has a single listener.
OF_SIMULATED = RequestContext(ANONYMOUS, "SIMULATED", "simulated", client_id="simulated", is_privileged=True)

logger = logging.getLogger(__name__)


class Network:
    def __init__(self, rng: random.Random, loop: VirtualLoop) -> None:
        self.rng = rng
        self.loop = loop
        self.servers: dict[int, SimulatedBroker] = {}
        self.cuts: set[tuple[int, int]] = set()
        """(from, to) pairs of nodes between which all messages are lost."""
        self.loss = 0.0
        self.duplication = 0.0
        self.lateness = rng.choice(LATENESS)
        """Share of timed-out requests, and of requests in REPEATED, that are delivered late or a second time."""
        self._context = Context()
        self._services: dict[int, dict[_Service, None]] = {}  # not sets: they have no deterministic order

    def delay(self) -> float:
        return DELAYS[int(self.rng.random() * len(DELAYS))]

    def mend(self) -> None:
        """Deliver every message exactly once from now on."""
        self.cuts.clear()
        self.loss = self.duplication = self.lateness = 0.0

    def disconnect(self, number: int) -> None:
        """Remove a dead process: requests it was serving get no response."""
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
        if (source, target) in self.cuts or self.rng.random() < self.loss:
            self.later(TIMEOUT, get_lost)
            if arrive_late is not None and self.rng.random() < self.lateness:
                self.arrive_late(TIMEOUT, arrive_late)
        else:
            self.later(self.delay(), arrive)

    def arrive_late(self, since: float, arrive: Callable[[], None]) -> None:
        self.later(since + self.rng.uniform(*self.rng.choice(LATE)), arrive)

    def later(self, seconds: float, callback: Callable[[], None]) -> VirtualHandle:
        return self.loop.call_at(self.loop.now + seconds, callback, context=self._context)

    def serve(self, target: int, request: Message, version: int, served: Served) -> None:
        server = self.servers.get(target)
        if server is None:
            served(None)
            return
        # A resent request must not show changes that a server made to its buffers.
        copy = decode_whole(type(request), version, _bytes(request, version))
        services = self._services.setdefault(target, {})
        service = _Service(server, copy, version, services, served)
        services[service] = None
        self.loop.call_soon(service.begin, context=server.process.context)


Served = Callable[[bytearray | None], None]
"""Receives the encoded response, or None if there will be none."""


class _Exchange:
    """A request in flight and its response; the future `answer` holds the response or the error."""

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
            if network.rng.random() < network.duplication:
                network.later(network.delay(), self._arrive_again)
            if network.rng.random() < network.lateness:
                network.arrive_late(0.0, self._arrive_again)
        self._give_up_timer = network.later(MAX_SERVICE, self._give_up)
        network.serve(target, request, version, self._served)

    def _arrive_again(self) -> None:
        """Deliver a duplicate, whose response is discarded."""
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
    """A delivered request, as handlers see it. Handlers are called as by the dispatcher: synchronously, with a task
    only for those that return a coroutine."""

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

    after = None  # routes without stages
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
        self._services = services  # requests in progress on this server; removed on completion
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
        """Cancel the request because the server died."""
        if not self._is_over:
            self._end_with(None)
            if self._task is not None:
                self._task.cancel()
                if getcoroutinestate(self._coroutine) == CORO_CREATED:
                    self._coroutine.close()  # its task has not started

    def _fail(self, error: Exception) -> None:
        """Log an exception raised by a handler, as the dispatcher does: it is a bug."""
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
        return True  # all simulated brokers run this version

    def close(self) -> None:
        """Nothing to close: messages in flight are delivered or lost."""


def _forget(data: bytearray | None) -> None:
    """Discard the response to a duplicate request."""


def _bytes(message: Message, version: int) -> bytearray:
    parts: list[Any] = []
    rest = encoder(type(message), version)(message, bytearray(), parts)
    if not parts:
        return rest
    return bytearray().join(part.read() if hasattr(part, "read") else part for part in (*parts, rest))
