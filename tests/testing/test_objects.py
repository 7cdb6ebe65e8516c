"""The object store in memory: each fault is injected into the named request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas.testing.objects import Fault, MemoryObjectStore
from barnabas.tiering.stores.store import MissingObjectError, StoreDeniedError, StoreUnavailableError
from simulation.loop import VirtualLoop
from tests.support.tiering.stores import pieces


def run(scenario: Callable[[], Awaitable[None]]) -> float:
    """In the simulator's loop; how much of its time it took."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(loop.create_task(scenario()))  # type: ignore[arg-type]
        return loop.time()
    finally:
        loop.close()


def test_a_failing_request_has_no_effect_and_the_next_one_has() -> None:
    store = MemoryObjectStore()
    store.fault(Fault.FAIL, "create")

    async def scenario() -> None:
        with pytest.raises(StoreUnavailableError):
            await store.create("a", b"1")
        assert store.keys == []
        await store.create("a", b"1")
        assert store.contents("a") == b"1"

    run(scenario)


def test_a_lost_answer_has_its_effect() -> None:
    store = MemoryObjectStore()
    store.fault(Fault.LOSE_ANSWER, "create", "upload", times=2)

    async def scenario() -> None:
        with pytest.raises(StoreUnavailableError):
            await store.create("a", b"1")
        with pytest.raises(StoreUnavailableError):
            await store.upload("b", pieces(b"1", b"2"))
        assert store.keys == ["a", "b"]

    run(scenario)


def test_faults_count_the_requests_of_their_kind_and_key() -> None:
    store = MemoryObjectStore()
    store.fault(Fault.DENY, "put", at=2, times=2, key=".segment")

    async def scenario() -> None:
        denied = []
        for key in ("1.segment", "manifest", "2.segment", "manifest", "3.segment", "4.segment"):
            try:
                await store.put(key, b"")
            except StoreDeniedError:
                denied.append(key)
        assert denied == ["2.segment", "3.segment"]

    run(scenario)


def test_a_late_request_arrives_after_its_sender_has_given_up() -> None:
    store = MemoryObjectStore()
    store.fault(Fault.LATE, "create", seconds=40)

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.create("a", b"1"), 10)
        assert store.keys == []
        await asyncio.sleep(31)
        assert store.keys == ["a"]

    assert run(scenario) == pytest.approx(41)


def test_a_late_effect_may_come_after_the_caller_has_repeated_the_request() -> None:
    store = MemoryObjectStore()

    async def scenario() -> None:
        version = await store.create("a", b"0")
        store.fault(Fault.LATE_EFFECT, "replace", "put", times=2, seconds=5)
        with pytest.raises(StoreUnavailableError):
            await store.replace("a", b"1", version)
        with pytest.raises(StoreUnavailableError):
            await store.put("b", b"1")
        await store.replace("a", b"2", version)
        assert store.keys == ["a"]
        await asyncio.sleep(6)
        assert (store.contents("a"), store.contents("b")) == (b"2", b"1")

    run(scenario)


def test_a_hanging_request_ends_with_its_caller_and_has_no_effect() -> None:
    store = MemoryObjectStore()
    store.fault(Fault.HANG, "upload")

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.upload("a", pieces(b"1")), 60)
        assert store.keys == []

    assert run(scenario) == pytest.approx(60)


def test_truncated_input_is_half_and_corrupt_input_differs_in_one_bit() -> None:
    store = MemoryObjectStore()

    async def scenario() -> None:
        await store.put("a", bytes(100))
        store.fault(Fault.CUT, "get_range")
        assert await store.get_range("a", 0, 100) == bytes(50)
        store.fault(Fault.CORRUPT, "get", "put", times=2)
        assert sum((await store.get("a")).data).bit_count() == 1
        await store.put("b", bytes(100))
        assert sum(store.contents("b")).bit_count() == 1
        assert store.contents("a") == bytes(100)
        store.fault(Fault.CUT, "upload")
        with pytest.raises(StoreUnavailableError):
            await store.upload("c", pieces(b"1", b"2"))
        assert store.keys == ["a", "b"]

    run(scenario)


def test_a_full_store_refuses_until_there_is_room() -> None:
    store = MemoryObjectStore(space=10)

    async def scenario() -> None:
        await store.put("a", bytes(8))
        with pytest.raises(StoreDeniedError, match="full"):
            await store.put("b", bytes(3))
        await store.delete("a")
        await store.put("b", bytes(10))
        assert store.space == 0

    run(scenario)


def test_random_faults_are_the_same_for_the_same_seed() -> None:
    def outcomes(seed: int) -> list[bool]:
        store = MemoryObjectStore(seed=seed)
        store.fault_at_random(0.3, [Fault.FAIL, Fault.LOSE_ANSWER])
        done = []

        async def scenario() -> None:
            for number in range(50):
                try:
                    await store.put(f"{number}", b"")
                    done.append(True)
                except StoreUnavailableError:
                    done.append(False)

        run(scenario)
        return done

    assert outcomes(1) == outcomes(1) != outcomes(2)
    assert 5 < outcomes(1).count(False) < 25


def test_requests_and_bytes_are_counted_and_take_their_time() -> None:
    store = MemoryObjectStore(latency=0.1)

    async def scenario() -> None:
        await store.upload("a", pieces(bytes(60), bytes(40)))
        await store.get_range("a", 10, 20)
        with pytest.raises(MissingObjectError):
            await store.get("b")
        assert [info.size async for info in store.list("")] == [100]
        await store.delete("a")

    assert run(scenario) == pytest.approx(0.5)
    assert store.requests == {"upload": 1, "get_range": 1, "get": 1, "list": 1, "delete": 1}
    assert (store.bytes_written, store.bytes_read) == (100, 10)


def test_a_misspelt_operation_is_an_error_of_the_test() -> None:
    with pytest.raises(ValueError, match="crate"):
        MemoryObjectStore().fault(Fault.FAIL, "crate")
