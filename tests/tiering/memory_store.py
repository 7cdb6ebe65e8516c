"""A store in memory that fails at given calls. Every call yields to others around its effect."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any, TypeVar

from barnabas.common.clock import ManualClock
from barnabas.testing.objects import WRITES, MemoryObjectStore
from barnabas.tiering.stores.store import ObjectExistsError, StaleVersionError, StoreUnavailableError
from tests.support.builders.segments import NOW

CALLS_LATER = 3
T = TypeVar("T")


class Fault(Enum):
    BEFORE = "fails before the effect"
    LOST = "has its effect, and the answer gets lost"
    LATE = "is answered with an error, and has its effect some calls later"


class MemoryStore(MemoryObjectStore):
    """`late` is worse than the twin's own: the caller has an error in its hands, and repeats."""

    def __init__(
        self, fault: Callable[[int, str, str], Fault | None] = lambda number, call, key: None
    ) -> None:
        super().__init__(clock=ManualClock(NOW))
        self.calls: list[tuple[str, str]] = []
        self.decide = fault
        self._pending: list[tuple[int, Callable[[], object]]] = []

    def heal(self) -> None:
        super().heal()
        self.decide = lambda number, call, key: None

    def settle(self) -> None:
        """All late effects happen now."""
        self._arrive(len(self.calls) + CALLS_LATER)

    def copy(self) -> "MemoryStore":
        """The same objects, and no faults."""
        copied = MemoryStore()
        for key in self.keys:
            copied.set_contents(key, self.contents(key))
        return copied

    def remove(self, key: str) -> None:
        """Without a call."""
        self._delete(key)

    async def _request(self, kind: str, key: str, effect: Callable[[Any], T]) -> T:
        self.calls.append((kind, key))
        number = len(self.calls)
        await asyncio.sleep(0)
        self._arrive(number)
        fault = self.decide(number, kind, key)
        if fault is Fault.LATE and kind in WRITES:
            self._pending.append((number + CALLS_LATER, lambda: effect(None)))
        if fault in (Fault.LATE, Fault.BEFORE):
            raise StoreUnavailableError(f"call {number}, {kind} {key}, {fault.value}")
        result = effect(None)
        await asyncio.sleep(0)
        if fault is Fault.LOST:
            raise StoreUnavailableError(f"call {number}, {kind} {key}, {fault.value}")
        return result

    def _arrive(self, number: int) -> None:
        due = [each for each in self._pending if each[0] <= number]
        self._pending = [each for each in self._pending if each[0] > number]
        for _, effect in due:
            with suppress(StaleVersionError, ObjectExistsError):
                effect()
