"""Object store of a simulated cluster: the in-memory implementation behind a network.

A request is delivered, takes effect, and its response is delivered back. A request in flight arrives even if its sender
dies; a suspended sender has not sent it yet. A sender without a response times out and does not know the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Sequence
from contextvars import Context
from typing import Any, TypeVar

from barnabas.testing.objects import Fault, MemoryObjectStore
from barnabas.tiering.stores.probe import FOLDER as PROBES
from barnabas.tiering.stores.store import ObjectInfo, StoreError, StoreUnavailableError, Versioned
from simulation.loop import VirtualClock
from simulation.network import Network

T = TypeVar("T")
Call = Callable[[], Coroutine[Any, Any, T]]

TIMEOUT = 1.0
"""Seconds; obstore's timeout, scaled to the length of a scenario."""
LATEST = 2.0  # maximum delay, in seconds, of a late request
FAULTS = (
    Fault.FAIL,
    Fault.FAIL,
    Fault.LOSE_ANSWER,
    Fault.LOSE_ANSWER,
    Fault.LATE,
    Fault.LATE_EFFECT,
    Fault.CUT,
    Fault.CORRUPT,
)
ROOM = 3000
"""Remaining capacity, in bytes, of a nearly full store: a few segments."""


class Bucket:
    def __init__(self, seed: int, network: Network) -> None:
        self.objects = MemoryObjectStore(seed=seed, clock=VirtualClock(network.loop))
        self.is_down = False
        self.cut_off: set[int] = set()
        """Brokers that cannot reach the store."""
        self._network = network
        self._tasks: set[asyncio.Task[None]] = set()
        self._links: list[StoreLink] = []

    def fail_at_random(self, rate: float) -> None:
        self.objects.fault_at_random(rate, FAULTS, LATEST, spared=PROBES)

    def deny(self, times: int) -> None:
        """Refuse the next `times` requests for lack of permission."""
        self.objects.fault(Fault.DENY, times=times, key="/topics/")

    def fill_up(self) -> None:
        self.objects.space = ROOM

    def heal(self) -> None:
        self.objects.heal()
        self.objects.space = None
        self.is_down = False
        self.cut_off.clear()

    def link(self, number: int) -> StoreLink:
        link = StoreLink(self, number)
        self._links.append(link)
        return link

    def has_arrived_late(self, key: str) -> bool:
        """True if the uploading broker got no response for this key."""
        return any(key in link.unanswered for link in self._links)

    # -- requests -------------------------------------------------------------------------------------

    def send(self, link: StoreLink, call: Call[T], answer: asyncio.Future[T]) -> None:
        def arrive() -> None:
            task = self._network.loop.create_task(self._serve(link, call, answer), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        if self._reaches(link) and not link.is_dead:
            self._network.later(self._network.delay(), arrive)

    def _reaches(self, link: StoreLink) -> bool:
        return not self.is_down and link.number not in self.cut_off

    async def _serve(self, link: StoreLink, call: Call[T], answer: asyncio.Future[T]) -> None:
        result: T | StoreError
        try:
            result = await call()
        except StoreError as error:
            result = error
        if self._reaches(link):
            self._network.later(self._network.delay(), lambda: _bring(answer, result))


def _bring(answer: asyncio.Future[T], result: T | StoreError) -> None:
    if answer.done():
        return
    if isinstance(result, StoreError):
        answer.set_exception(result)
    else:
        answer.set_result(result)


class StoreLink:
    """Connection of one broker process to the store. `is_dead`: the process has ended, and nothing is sent any more."""

    def __init__(self, bucket: Bucket, number: int) -> None:
        self.number = number
        self.is_dead = False
        self.unanswered: set[str] = set()
        """Keys of uploads without a response, which may still arrive."""
        self._bucket = bucket
        self._objects = bucket.objects

    async def _ask(self, what: str, call: Call[T]) -> T:
        await asyncio.sleep(0)  # a process suspended here has not sent the request
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._bucket.send(self, call, answer)
        try:
            async with asyncio.timeout(TIMEOUT):
                return await answer
        except TimeoutError:
            raise StoreUnavailableError(f"{what}: no answer") from None

    async def get(self, key: str) -> Versioned:
        return await self._ask(f"get {key}", lambda: self._objects.get(key))

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        return await self._ask(f"get {key}", lambda: self._objects.get_range(key, start, end))

    async def create(self, key: str, data: bytes) -> str:
        return await self._ask(f"create {key}", lambda: self._objects.create(key, data))

    async def replace(self, key: str, data: bytes, version: str) -> str:
        return await self._ask(f"replace {key}", lambda: self._objects.replace(key, data, version))

    async def put(self, key: str, data: bytes) -> None:
        await self._ask(f"put {key}", lambda: self._objects.put(key, data))

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        received = bytearray()
        async for piece in pieces:
            received += piece
            await asyncio.sleep(0)
        self.unanswered.add(key)
        await self._ask(f"upload {key}", lambda: self._objects.upload(key, _one(bytes(received))))
        self.unanswered.discard(key)

    async def delete(self, key: str) -> None:
        await self._ask(f"delete {key}", lambda: self._objects.delete(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        for info in await self._ask(f"list {prefix}", lambda: self._listed(prefix, after)):
            yield info

    async def _listed(self, prefix: str, after: str) -> Sequence[ObjectInfo]:
        return [info async for info in self._objects.list(prefix, after)]

    async def close(self) -> None:
        return


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data
