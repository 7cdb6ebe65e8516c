"""A store in memory that fails at the n-th call: before the effect, after it, or long before it."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import suppress
from enum import Enum

from barnabas.tiering.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectInfo,
    StaleVersionError,
    StoreUnavailableError,
    Versioned,
)
from tests.tiering.support import NOW


class Fault(Enum):
    BEFORE = "fails before the effect"
    LOST = "has its effect, and the answer gets lost"
    LATE = "is answered with an error, and has its effect some calls later"


class MemoryStore:
    """Every call lets others run before and after its effect."""

    def __init__(
        self, fault: Callable[[int, str, str], Fault | None] = lambda number, call, key: None
    ) -> None:
        self.objects: dict[str, tuple[bytes, str, int]] = {}
        self.calls: list[tuple[str, str]] = []
        self.now_ms = NOW
        self._fault = fault
        self._version = 0
        self._late: list[tuple[int, Callable[[], object]]] = []

    async def get(self, key: str) -> Versioned:
        return await self._call("get", key, lambda: Versioned(*self._found(key)[:2]))

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        data = await self._call("get_range", key, lambda: self._found(key)[0][start:end])
        if len(data) != end - start:
            raise StoreUnavailableError(f"{key} is too short")
        return data

    async def create(self, key: str, data: bytes) -> str:
        def effect() -> str:
            if key in self.objects:
                raise ObjectExistsError(key)
            return self._write(key, data)

        return await self._call("create", key, effect)

    async def replace(self, key: str, data: bytes, version: str) -> str:
        def effect() -> str:
            if key not in self.objects or self.objects[key][1] != version:
                raise StaleVersionError(key)
            return self._write(key, data)

        return await self._call("replace", key, effect)

    async def put(self, key: str, data: bytes) -> None:
        await self._call("put", key, lambda: self._write(key, data))

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        data = b"".join([piece async for piece in pieces])
        await self._call("upload", key, lambda: self._write(key, data))

    async def delete(self, key: str) -> None:
        await self._call("delete", key, lambda: self.objects.pop(key, None) and None)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        keys = await self._call("list", prefix, lambda: sorted(self.objects))
        for key in keys:
            if key.startswith(prefix) and key > after and key in self.objects:
                data, _, modified = self.objects[key]
                yield ObjectInfo(key, len(data), modified)

    async def close(self) -> None:
        pass

    def settle(self) -> None:
        """All late effects happen now."""
        late, self._late = self._late, []
        for _, effect in late:
            _ignore(effect)

    async def _call(self, call: str, key: str, effect):
        self.calls.append((call, key))
        number = len(self.calls)
        await asyncio.sleep(0)
        for due, late in [each for each in self._late if each[0] <= number]:
            self._late.remove((due, late))
            _ignore(late)
        fault = self._fault(number, call, key)
        if fault is Fault.LATE and call in ("create", "replace", "put", "upload", "delete"):
            self._late.append((number + 3, effect))
        if fault in (Fault.LATE, Fault.BEFORE):
            raise StoreUnavailableError(f"call {number}, {call} {key}, {fault.value}")
        result = effect()
        await asyncio.sleep(0)
        if fault is Fault.LOST:
            raise StoreUnavailableError(f"call {number}, {call} {key}, {fault.value}")
        return result

    def _found(self, key: str) -> tuple[bytes, str, int]:
        if key not in self.objects:
            raise MissingObjectError(key)
        return self.objects[key]

    def _write(self, key: str, data: bytes) -> str:
        self._version += 1
        self.objects[key] = data, str(self._version), self.now_ms
        return str(self._version)


def _ignore(effect: Callable[[], object]) -> None:
    with suppress(StaleVersionError, ObjectExistsError):
        effect()
