"""In-memory object store with fault injection, a substitute for those in `barnabas.tiering`.

It has no threads and uses the loop's time, so that it works in the simulator.

    store = MemoryObjectStore(seed=7)
    store.fault(Fault.LOSE_ANSWER, "replace", at=2)              # the second replace from now on
    store.fault(Fault.FAIL, "upload", at=1, times=3, key=".segment")
    store.fault(Fault.LATE, "create", seconds=40)                # takes effect after the caller has given up
    store.fault_at_random(0.05, [Fault.FAIL, Fault.LOSE_ANSWER]) # one request in 20, reproducible by seed
    store.space = 1 << 20                                        # runs full
    store.requests, store.bytes_read, store.bytes_written
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from contextvars import Context
from enum import Enum
from typing import Any, TypeVar

from barnabas.common.clock import Clock, ManualClock
from barnabas.tiering.stores import (
    MissingObjectError,
    ObjectExistsError,
    ObjectInfo,
    StaleVersionError,
    StoreDeniedError,
    StoreError,
    StoreUnavailableError,
    Versioned,
)

T = TypeVar("T")
READS = frozenset({"get", "get_range", "list"})
WRITES = frozenset({"create", "replace", "put", "upload", "delete"})
OPERATIONS = READS | WRITES


class Fault(Enum):
    FAIL = "an error without effect"
    LOSE_ANSWER = "the effect, but an error"
    LATE = "the effect `seconds` later, even if the caller has given up"
    LATE_EFFECT = "an error at once, and the effect `seconds` later, possibly after a retry of the caller"
    HANG = "no effect and no response, until the caller gives up"
    CUT = "a read returns half of the bytes without an error; an upload fails in the middle"
    CORRUPT = "one bit of the data read or written is flipped"
    DENY = "an error that is not retriable"


class _Plan:
    """A planned fault: the matching requests, the countdown and the fault."""

    def __init__(self, fault: Fault, kinds: frozenset[str], at: int, times: int, key: str, seconds: float):
        self.fault = fault
        self.seconds = seconds
        self._kinds = kinds
        self._countdown = at
        self._left = times
        self._key = key

    def takes(self, kind: str, key: str) -> bool:
        if kind not in self._kinds or self._key not in key or not self._left:
            return False
        self._countdown -= 1
        if self._countdown > 0:
            return False
        self._left -= 1
        return True


class _Object:
    __slots__ = ("data", "modified_ms", "version")

    def __init__(self, data: bytes, version: str, modified_ms: int) -> None:
        self.data = data
        self.version = version
        self.modified_ms = modified_ms


class MemoryObjectStore:
    """`latency`: duration of each request in seconds. `space`: free space in bytes."""

    def __init__(
        self, *, seed: int = 0, clock: Clock | None = None, latency: float = 0.0, space: int | None = None
    ) -> None:
        self.latency = latency
        self.space = space
        self.requests: Counter[str] = Counter()
        self.bytes_read = 0
        self.bytes_written = 0
        self._clock = clock or ManualClock()
        self._random = random.Random(seed)
        self._plans: list[_Plan] = []
        self._rate = 0.0
        self._faults: Sequence[Fault] = ()
        self._max_delay = 0.0
        self._spared: str | None = None
        self._objects: dict[str, _Object] = {}
        self._versions = 0

    # -- control by tests -----------------------------------------------------------------------------

    def fault(
        self,
        fault: Fault,
        *kinds: str,
        at: int = 1,
        times: int = 1,
        key: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Inject a fault into the `at`-th request from now on, and the next `times` - 1, of these kinds (default: all)
        whose keys contain `key`."""
        unknown = set(kinds) - OPERATIONS
        if unknown:
            raise ValueError(f"unknown operations {sorted(unknown)}; known: {sorted(OPERATIONS)}")
        self._plans.append(_Plan(fault, frozenset(kinds) or OPERATIONS, at, times, key, seconds))

    def fault_at_random(
        self, rate: float, faults: Sequence[Fault], seconds: float = 10.0, *, spared: str | None = None
    ) -> None:
        """Inject random faults. `seconds`: maximum delay. `spared`: prefix of keys without faults. CORRUPT applies to
        reads only: stores verify the data they receive."""
        self._rate, self._faults, self._max_delay, self._spared = rate, faults, seconds, spared

    def heal(self) -> None:
        """Cancel all faults."""
        self._plans.clear()
        self._rate = 0.0

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    @property
    def keys(self) -> list[str]:
        return sorted(self._objects)

    def contents(self, key: str) -> bytes:
        """Return the content of an object without a request."""
        return self._objects[key].data

    def set_contents(self, key: str, data: bytes) -> None:
        """Overwrite an object without a request, to simulate another writer or corruption."""
        self._set(key, data)

    # -- ObjectStore ----------------------------------------------------------------------------------

    async def get(self, key: str) -> Versioned:
        return await self._request("get", key, lambda fault: self._get(key, fault))

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        return await self._request("get_range", key, lambda fault: self._get_range(key, start, end, fault))

    async def create(self, key: str, data: bytes) -> str:
        return await self._request("create", key, lambda fault: self._create(key, self._sent(data, fault)))

    async def replace(self, key: str, data: bytes, version: str) -> str:
        return await self._request(
            "replace", key, lambda fault: self._replace(key, self._sent(data, fault), version)
        )

    async def put(self, key: str, data: bytes) -> None:
        await self._request("put", key, lambda fault: self._set(key, self._sent(data, fault)))

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        """Upload all pieces in one request."""
        received: list[bytes] = []
        async for piece in pieces:
            received.append(piece)
            await asyncio.sleep(0)
        data = b"".join(received)
        await self._request("upload", key, lambda fault: self._upload(key, self._sent(data, fault), fault))

    async def delete(self, key: str) -> None:
        await self._request("delete", key, lambda fault: self._delete(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        for info in await self._request("list", prefix, lambda fault: self._list(prefix, after)):
            yield info

    async def folders(self, prefix: str) -> Sequence[str]:
        infos = await self._request("list", prefix, lambda fault: self._list(prefix, ""))
        below = [info.key.removeprefix(prefix) for info in infos]
        return sorted({key.partition("/")[0] for key in below if "/" in key})

    async def close(self) -> None:
        return

    # -- faults ---------------------------------------------------------------------------------------

    async def _request(self, kind: str, key: str, effect: Callable[[Fault | None], T]) -> T:
        self.requests[kind] += 1
        fault, seconds = self._fault_for(kind, key)
        if fault is Fault.HANG:
            await asyncio.get_running_loop().create_future()
        if fault is Fault.LATE:
            return await self._later(seconds, effect)
        if fault is Fault.LATE_EFFECT:
            self._later(seconds, effect).cancel()  # the response is dropped
        await asyncio.sleep(self.latency)
        if fault in (Fault.FAIL, Fault.LATE_EFFECT):
            raise StoreUnavailableError(f"{kind} {key}: the store is unreachable.")
        if fault is Fault.DENY:
            raise StoreDeniedError(f"{kind} {key}: the store denies access.")
        result = effect(fault)
        if fault is Fault.LOSE_ANSWER:
            raise StoreUnavailableError(f"{kind} {key}: the response was lost.")
        return result

    def _fault_for(self, kind: str, key: str) -> tuple[Fault | None, float]:
        due = [plan for plan in self._plans if plan.takes(kind, key)]
        if due:
            return due[0].fault, due[0].seconds
        is_spared = self._spared is not None and key.startswith(self._spared)
        if not self._rate or is_spared or self._random.random() >= self._rate:
            return None, 0.0
        fault, seconds = self._random.choice(self._faults), self._random.uniform(0, self._max_delay)
        return (None, 0.0) if fault is Fault.CORRUPT and kind in WRITES else (fault, seconds)

    def _later(self, seconds: float, effect: Callable[[Fault | None], T]) -> asyncio.Future[T]:
        """Apply the effect later, independent of the sender, like a request in the network."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        loop.call_later(seconds, _arrive, effect, answer, context=Context())
        return answer

    def _sent(self, data: bytes, fault: Fault | None) -> bytes:
        self.bytes_written += len(data)
        return self._corrupted(data) if fault is Fault.CORRUPT else data

    def _received(self, data: bytes, fault: Fault | None) -> bytes:
        data = data[: len(data) // 2] if fault is Fault.CUT else data
        self.bytes_read += len(data)
        return self._corrupted(data) if fault is Fault.CORRUPT else data

    def _corrupted(self, data: bytes) -> bytes:
        if not data:
            return data
        at = self._random.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self._random.randrange(8)]) + data[at + 1 :]

    # -- effects --------------------------------------------------------------------------------------

    def _object(self, key: str) -> _Object:
        stored = self._objects.get(key)
        if stored is None:
            raise MissingObjectError(f"{key} does not exist.")
        return stored

    def _get(self, key: str, fault: Fault | None) -> Versioned:
        stored = self._object(key)
        return Versioned(self._received(stored.data, fault), stored.version)

    def _get_range(self, key: str, start: int, end: int, fault: Fault | None) -> bytes:
        stored = self._object(key)
        if end > len(stored.data):
            raise StoreError(f"{key} ends at {len(stored.data)}, before {end}: it is truncated.")
        return self._received(stored.data[start:end], fault)

    def _create(self, key: str, data: bytes) -> str:
        if key in self._objects:
            raise ObjectExistsError(f"{key} already exists.")
        return self._set(key, data)

    def _replace(self, key: str, data: bytes, version: str) -> str:
        current = self._objects.get(key)
        if current is None or current.version != version:
            raise StaleVersionError(f"{key} has been replaced or removed since it was read.")
        return self._set(key, data)

    def _upload(self, key: str, data: bytes, fault: Fault | None) -> None:
        if fault is Fault.CUT:
            raise StoreUnavailableError(f"upload {key}: the connection was cut.")
        self._set(key, data)

    def _set(self, key: str, data: bytes) -> str:
        old = self._objects.get(key)
        self._take_space(key, len(data) - (len(old.data) if old else 0))
        self._versions += 1
        self._objects[key] = _Object(bytes(data), f"v{self._versions}", self._clock.now_ms())
        return self._objects[key].version

    def _delete(self, key: str) -> None:
        removed = self._objects.pop(key, None)
        if removed is not None:
            self._take_space(key, -len(removed.data))

    def _take_space(self, key: str, size: int) -> None:
        if self.space is None:
            return
        if size > self.space:
            raise StoreDeniedError(f"{key}: the store is full.")
        self.space -= size

    def _list(self, prefix: str, after: str) -> Sequence[ObjectInfo]:
        return [
            ObjectInfo(key, len(stored.data), stored.modified_ms)
            for key, stored in sorted(self._objects.items())
            if key.startswith(prefix) and key > after
        ]


def _arrive(effect: Callable[[Fault | None], Any], answer: asyncio.Future[Any]) -> None:
    try:
        result = effect(None)
    except StoreError as error:
        if not answer.done():
            answer.set_exception(error)
    else:
        if not answer.done():
            answer.set_result(result)
