"""The probe rejects only stores without working conditional writes."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.testing.objects import Fault, MemoryObjectStore
from barnabas.tiering.stores.probe import ROUNDS, WRITERS, UnsoundStoreError, probe
from barnabas.tiering.stores.store import StoreDeniedError, StoreUnavailableError, Versioned


class IgnoresConditions(MemoryObjectStore):
    """As stores that do not know If-None-Match: they overwrite."""

    async def create(self, key: str, data: bytes) -> str:
        await self.put(key, data)
        return (await self.get(key)).version


class IgnoresVersions(MemoryObjectStore):
    async def replace(self, key: str, data: bytes, version: str) -> str:
        await self.put(key, data)
        return (await self.get(key)).version


class LooksThenWrites(MemoryObjectStore):
    """Correct only without concurrent writers between its two steps."""

    async def replace(self, key: str, data: bytes, version: str) -> str:
        if (await self.get(key)).version == version:
            return await self.replace_now(key, data)
        return await super().replace(key, data, version)

    async def replace_now(self, key: str, data: bytes) -> str:
        await self.put(key, data)
        return (await self.get(key)).version


class NeverChangesItsVersion(MemoryObjectStore):
    async def get(self, key: str) -> Versioned:
        return Versioned((await super().get(key)).data, "1")


class KeepsWhatIsDeleted(MemoryObjectStore):
    async def delete(self, key: str) -> None:
        return


@pytest.mark.parametrize(
    ("kind", "response"),
    [
        (IgnoresConditions, "8 of 8 concurrent writers succeeded with a create"),
        (IgnoresVersions, "8 of 8 concurrent writers succeeded with a replace"),
        (LooksThenWrites, "of 8 concurrent writers succeeded with a replace"),
        (NeverChangesItsVersion, "does not have the contents of the successful writer"),
        (KeepsWhatIsDeleted, "still exists"),
    ],
)
def test_inconsistent_store_is_rejected(kind: type[MemoryObjectStore], response: str) -> None:
    store = kind()
    with pytest.raises(UnsoundStoreError, match=response) as refusal:
        asyncio.run(probe(store))
    assert "tiering is not started" in refusal.value.message
    assert kind is KeepsWhatIsDeleted or store.keys == []


@pytest.mark.parametrize(
    ("fault", "error"), [(Fault.FAIL, StoreUnavailableError), (Fault.DENY, StoreDeniedError)]
)
def test_a_store_that_does_not_answer_is_not_called_a_liar(fault: Fault, error: type[Exception]) -> None:
    store = MemoryObjectStore()
    store.fault(fault, "replace", at=3)
    with pytest.raises(error):
        asyncio.run(probe(store))
    assert store.keys == []


def test_an_unanswered_delete_does_not_prove_that_deletes_have_no_effect() -> None:
    store = MemoryObjectStore()
    store.fault(Fault.FAIL, "delete")
    with pytest.raises(StoreUnavailableError):
        asyncio.run(probe(store))


def test_the_probe_races_eight_creates_and_eight_updates_in_every_round() -> None:
    store = MemoryObjectStore()
    asyncio.run(probe(store))
    assert store.requests["create"] == store.requests["replace"] == ROUNDS * (WRITERS + 1)
