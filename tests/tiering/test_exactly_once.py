"""Copying and deleting exactly once, with failures at every step and call, and two leaders at every await."""

import asyncio
import random
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar, cast

import pytest

from barnabas.tiering.objects import manifest_changes
from barnabas.tiering.stores.store import ObjectStore
from barnabas.tiering.writing.pacing import Step
from tests.tiering.memory_store import Fault, MemoryStore
from tests.tiering.partition_world import (
    Action,
    At,
    Died,
    Leader,
    Replica,
    Truth,
    check_readable,
    dying_at,
    entries_in,
    manifest_in,
    unlisted,
)

T = TypeVar("T")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_changes, "MAX_ENTRIES", 4)
    monkeypatch.setattr(manifest_changes, "PAGE_ENTRIES", 2)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def script(leader: Leader) -> tuple[Action, ...]:
    """Work of a leader in these tests: pages are created, the log start moves into one and past one."""
    return (
        leader.append(13), leader.copy, leader.append(20), leader.copy, leader.expire(4), leader.append(15),
        leader.copy, leader.expire(22),
    )  # fmt: skip


async def two_lives(store: MemoryStore, at: At) -> Leader:
    """A leader that dies, and its successor with different segment boundaries."""
    truth = Truth()
    first = Leader(store, Replica(truth, 5), 1, at)
    with suppress(Died):
        await first.work(*script(first))
        store.settle()
        assert unlisted(store) == set(), "a repetition takes the same names"
    await check_readable(store, first.replica)
    second = Leader(store, Replica(truth, 7), 2)
    second.replica.local_start = first.replica.local_start
    await second.work(second.append(10), second.copy, second.expire(truth.start), second.copy)
    store.settle()
    await check_readable(store, second.replica)
    return second


@pytest.mark.parametrize("step", list(Step))
@pytest.mark.parametrize("visit", [1, 2, 5])
def test_a_leader_that_dies_at_a_step_loses_nothing_and_leaves_nothing(step: Step, visit: int) -> None:
    store = MemoryStore()
    second = run(two_lives(store, dying_at(step, visit)))
    assert not second.fenced
    assert unlisted(store) == set()
    assert manifest_in(store).tiered_end == second.replica.truth.end // 7 * 7


def calls_of_a_life() -> int:
    store = MemoryStore()
    leader = Leader(store, Replica(Truth(), 5), 1)
    run(leader.work(*script(leader)))
    return len(store.calls)


@pytest.mark.parametrize("fault", list(Fault))
def test_a_call_that_fails_is_repeated_and_nothing_is_lost_doubled_or_left(fault: Fault) -> None:
    for failing in range(1, calls_of_a_life() + 1):
        store = MemoryStore(lambda number, call, key, failing=failing: fault if number == failing else None)  # type: ignore[misc]
        second = run(two_lives(store, lambda step: None))
        assert not second.fenced
        assert unlisted(store) == set(), failing


@pytest.mark.parametrize("fault", list(Fault))
def test_a_leader_that_dies_without_an_answer_loses_nothing_and_leaves_nothing(fault: Fault) -> None:
    for failing in range(1, calls_of_a_life() + 1):
        run(death_at_a_call(failing, fault))


async def death_at_a_call(failing: int, fault: Fault) -> None:
    """It is the last call of the first leader, and may still have its effect when the second one works."""
    store = MemoryStore(lambda number, call, key: fault if number == failing else None)
    truth = Truth()
    first = Leader(store, Replica(truth, 5), 1)
    first.repeat = once(first)  # type: ignore[method-assign]
    with suppress(Died):
        await first.work(*script(first))
    second = Leader(store, Replica(truth, 7), 2)
    second.replica.local_start = first.replica.local_start
    await second.work(second.append(10), second.copy, second.expire(truth.start), second.copy)
    store.settle()
    third = Leader(
        store, Replica(truth, 5), 3
    )  # it finds writes that took effect after the second one's sweep
    third.replica.local_start = second.replica.local_start
    await third.work(third.copy)
    await check_readable(store, third.replica)
    assert unlisted(store) == set(), failing


def once(leader: Leader) -> Any:
    async def attempt(action: Action) -> None:
        try:
            await action()
        except Exception as error:
            raise Died from error

    return attempt


class Gate:
    """Holds one leader back before or after the effect of its n-th call."""

    def __init__(self, store: MemoryStore, number: int, after: bool) -> None:
        self._store = store
        self._left = number
        self._after = after
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if name == "list":
            return call

        async def gated(*arguments: Any) -> Any:
            self._left -= 1
            own = self._left == 0
            if own and not self._after:
                await self.hold()
            try:
                return await call(*arguments)
            finally:
                if own and self._after:
                    await self.hold()

        return gated

    @property
    def store(self) -> ObjectStore:
        return cast("ObjectStore", self)

    async def hold(self) -> None:
        self.reached.set()
        await self.open.wait()


async def zombie_and_leader(number: int, after: bool) -> None:
    store, truth = MemoryStore(), Truth()
    gate = Gate(store, number, after)
    zombie = Leader(gate.store, Replica(truth, 5), 1)
    late = asyncio.create_task(zombie.work(*script(zombie)))
    await asyncio.wait([asyncio.create_task(gate.reached.wait()), late], return_when="FIRST_COMPLETED")
    leader = Leader(store, Replica(truth, 7), 2)
    leader.replica.local_start = zombie.replica.local_start
    zombie.replica.truth = truth.frozen()
    await leader.work(leader.append(10), leader.copy, leader.expire(truth.start), leader.copy)
    assert not leader.fenced
    gate.open.set()
    await late
    await leader.work(leader.append(9), leader.copy)
    assert not leader.fenced
    await check_readable(store, leader.replica)
    last = Leader(store, Replica(truth, 5), 3)
    last.replica.local_start = leader.replica.local_start
    await last.work(last.copy)
    await check_readable(store, last.replica)
    assert unlisted(store) == set(), (number, after)


@pytest.mark.parametrize("after", [False, True])
def test_a_zombie_that_wakes_at_any_call_changes_nothing_of_the_new_leaders(after: bool) -> None:
    for number in range(1, calls_of_a_life() + 1):
        run(zombie_and_leader(number, after))


async def chaos(seed: int) -> None:
    """Leaders that follow each other, some of which live on as zombies, on a store that fails at random."""
    dice = random.Random(seed)
    store = MemoryStore(lambda number, call, key: dice.choice(list(Fault)) if dice.random() < 0.12 else None)
    truth, lives, local_start = Truth(), [], 0
    for epoch in range(1, 6):
        leader = Leader(store, Replica(truth, dice.choice([3, 5, 7])), epoch)
        leader.replica.local_start = local_start
        life = asyncio.create_task(leader.work(*random_actions(dice, leader)))
        lives.append(life)
        for _ in range(dice.randrange(200)):
            await asyncio.sleep(0)
        if dice.random() < 0.5:
            life.cancel()
        local_start = leader.replica.local_start
        leader.replica.truth = truth.frozen()
    await asyncio.gather(*lives, return_exceptions=True)
    store.settle()
    store.heal()
    last = Leader(store, Replica(truth, 4), 9)
    last.replica.local_start = local_start
    await last.work(last.copy, last.expire(truth.start), last.sweep_all)
    assert not last.fenced
    await check_readable(store, last.replica)
    assert unlisted(store) == set(), seed


def random_actions(dice: random.Random, leader: Leader) -> Iterator[Action]:
    for _ in range(dice.randrange(1, 6)):
        yield leader.append(dice.randrange(1, 25))
        yield leader.copy
        if dice.random() < 0.4:
            yield leader.expire(leader.replica.truth.start + dice.randrange(12))


@pytest.mark.parametrize("seed", range(60))
def test_from_a_seed_leaders_zombies_and_faults_lose_nothing_and_leave_nothing(seed: int) -> None:
    run(chaos(seed))


def test_unclean_leader_continues_where_its_history_diverges_and_nothing_is_deleted() -> None:
    async def scenario() -> None:
        store, truth = MemoryStore(), Truth()
        first = Leader(store, Replica(truth, 5), 1)
        await first.work(first.append(12), first.copy)
        lost = Leader(store, Replica(truth, 5), 2)
        lost.replica.local_start = 10
        await lost.work(lost.append(15), lost.copy)
        assert manifest_in(store).tiered_end == 25
        segments = {key for key in store.keys if key.endswith(".segment")}

        other = Truth()  # without the last records of epoch 1, and all of epoch 2
        other.append(7, 1)
        other.append(4, 3)
        unclean = Leader(store, Replica(other, 5), 3)
        await unclean.work(unclean.append(16), unclean.copy)
        manifest = manifest_in(store)
        assert [(each.base, each.end) for each in entries_in(store, manifest)] == [
            (0, 5), (5, 7), (7, 10), (10, 15), (15, 20), (20, 25),
        ]  # fmt: skip
        assert len(manifest.quarantine) == 3
        await check_readable(store, unclean.replica)
        await unclean.work(unclean.sweep_all, unclean.expire(0))
        assert segments <= set(store.keys)

    run(scenario())
