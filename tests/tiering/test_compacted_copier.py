"""A compacted log is copied as a consistent snapshot, with failures at every step and call, and two leaders."""

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from barnabas.tiering.objects import manifest_changes
from barnabas.tiering.objects.manifest import BadManifestError, ManifestWriter
from barnabas.tiering.objects.manifest_changes import ImpossibleChangeError
from barnabas.tiering.writing.claim import Decision, LogView, claim_manifest
from barnabas.tiering.writing.pacing import Step
from tests.support.builders.segments import FOLDER, NOW
from tests.tiering.compacted_world import Leader, Replica, check_state
from tests.tiering.memory_store import Fault, MemoryStore
from tests.tiering.partition_world import Action, At, Died, dying_at, manifest_in, unlisted
from tests.tiering.test_exactly_once import Gate, once

T = TypeVar("T")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_changes, "MAX_ENTRIES", 4)
    monkeypatch.setattr(manifest_changes, "PAGE_ENTRIES", 2)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def script(leader: Leader) -> tuple[Action, ...]:
    """Segments are added and replaced twice; pages are created and removed."""
    return (
        leader.append(23), leader.copy, leader.compact, leader.copy, leader.append(18), leader.copy, leader.collect,
        leader.compact, leader.append(7), leader.copy, leader.collect,
    )  # fmt: skip


async def finish(store: MemoryStore, leader: Leader) -> None:
    """The last leader has copied all, and no unlisted object is left."""
    assert not leader.fenced
    await check_state(store)
    assert manifest_in(store).tiered_end == leader.replica.end
    assert unlisted(store) == set()


async def two_lives(store: MemoryStore, at: At) -> Leader:
    """A leader that dies, and its successor with the same records in different segments."""
    first = Leader(store, Replica(5), 1, at)
    with suppress(Died):
        await first.work(*script(first))
        store.settle()
        assert unlisted(store) == set(), "a repetition takes the same names"
    await check_state(store)
    second = Leader(store, first.replica.follower(7), 2)
    await second.work(
        second.append(10), second.copy, second.roll, second.copy, second.compact, second.copy, second.collect
    )
    store.settle()
    return second


STEPS = [step for step in Step if step is not Step.LOG_START_RAISED]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("visit", [1, 2, 5])
def test_a_leader_that_dies_at_a_step_loses_nothing_and_leaves_nothing(step: Step, visit: int) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await finish(store, await two_lives(store, dying_at(step, visit)))

    run(scenario())


def calls_of_a_life() -> int:
    store = MemoryStore()
    leader = Leader(store, Replica(5), 1)
    run(leader.work(*script(leader)))
    return len(store.calls)


@pytest.mark.parametrize("fault", list(Fault))
def test_a_call_that_fails_is_repeated_and_nothing_is_lost_doubled_or_left(fault: Fault) -> None:
    async def scenario(failing: int) -> None:
        store = MemoryStore(lambda number, call, key: fault if number == failing else None)
        await finish(store, await two_lives(store, lambda step: None))

    for failing in range(1, calls_of_a_life() + 1):
        run(scenario(failing))


@pytest.mark.parametrize("fault", list(Fault))
def test_a_leader_that_dies_without_an_answer_loses_nothing_and_leaves_nothing(fault: Fault) -> None:
    async def scenario(failing: int) -> None:
        store = MemoryStore(lambda number, call, key: fault if number == failing else None)
        first = Leader(store, Replica(5), 1)
        first.repeat = once(first)  # type: ignore[method-assign]
        with suppress(Died):
            await first.work(*script(first))
        second = Leader(store, first.replica.follower(6), 2)
        await second.work(second.append(10), second.roll, second.copy)
        store.settle()
        # It finds writes that took effect after the second one's sweep.
        third = Leader(store, second.replica.follower(4), 3)
        await third.work(third.append(1), third.roll, third.copy)
        await finish(store, third)

    for failing in range(1, calls_of_a_life() + 1):
        run(scenario(failing))


@pytest.mark.parametrize("after", [False, True])
def test_a_zombie_that_wakes_at_any_call_changes_nothing_of_the_new_leaders(after: bool) -> None:
    async def scenario(number: int) -> None:
        store = MemoryStore()
        gate = Gate(store, number, after)
        zombie = Leader(gate.store, Replica(5), 1)
        late = asyncio.create_task(zombie.work(*script(zombie)))
        await asyncio.wait([asyncio.create_task(gate.reached.wait()), late], return_when="FIRST_COMPLETED")
        leader = Leader(store, zombie.replica.follower(7), 2)
        await leader.work(leader.append(10), leader.roll, leader.copy, leader.collect)
        gate.open.set()
        await late
        last = Leader(store, leader.replica.follower(4), 3)
        await last.work(last.append(3), last.roll, last.copy)
        await finish(store, last)

    for number in range(1, calls_of_a_life() + 1):
        run(scenario(number))


async def chaos(seed: int, kind: type[Leader] = Leader) -> None:
    """Leaders that follow each other on a store that fails at random; the state is right after every action."""
    dice = random.Random(seed)
    store = MemoryStore(lambda number, call, key: dice.choice(list(Fault)) if dice.random() < 0.04 else None)
    replica = Replica(4)
    for epoch in range(1, 6):
        leader = kind(store, replica, epoch)
        actions: list[Action] = [leader.claim, leader.sweep]
        for _ in range(dice.randrange(1, 8)):
            actions.append(dice.choice([leader.append(dice.randrange(1, 12)), leader.compact, leader.roll]))
            actions.append(dice.choice([leader.copy, leader.copy, leader.collect]))
        for action in actions:
            await leader.repeat(action)
            await check_state(store)
        replica = replica.follower(dice.choice([3, 4, 6]))
    store.settle()
    store.heal()
    last = Leader(store, replica, 9)
    await last.work(last.append(1), last.roll, last.copy, last.collect)
    await finish(store, last)


@pytest.mark.parametrize("seed", range(40))
def test_listing_from_a_seed_equals_the_log_at_one_time(seed: int) -> None:
    run(chaos(seed))


def test_leader_that_does_not_wait_for_inherited_records_corrupts_the_state() -> None:
    class Hasty(Leader):
        def inherited(self, view: LogView) -> int:
            return 0

    def is_wrong(seed: int) -> bool:
        try:
            run(chaos(seed, Hasty))
        except (AssertionError, ImpossibleChangeError):
            return True
        return False

    assert any(is_wrong(seed) for seed in range(40))


def test_restarted_leader_copies_no_segment_again() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        first = Leader(store, Replica(5), 1)
        await first.work(first.append(10), first.compact, first.copy)
        again = Leader(store, first.replica.again(), 2)
        await again.work(again.copy, again.append(5), again.copy)
        assert again.uploads == 1
        await finish(store, again)

    run(scenario())


def test_an_object_that_was_damaged_is_copied_again_by_the_next_leader() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        first = Leader(store, Replica(5), 1)
        await first.work(first.append(10), first.copy)
        damaged = FOLDER.key(manifest_in(store).entries[0].key)
        await store.put(damaged, store.contents(damaged)[:-1])
        again = Leader(store, first.replica.again(), 2)
        await again.work(again.append(5), again.copy)
        assert again.uploads == 2
        await finish(store, again)

    run(scenario())


def test_the_replaced_objects_stay_for_the_delay() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leader = Leader(store, Replica(5), 1)
        await leader.work(leader.append(10), leader.copy)
        before = set(manifest_in(store).named())
        await leader.compact()
        await leader.copy()
        assert before <= {key.removeprefix(FOLDER.prefix) for key in store.keys}
        assert {each.key for each in manifest_in(store).garbage} == before
        await leader.collect()
        assert not before & {key.removeprefix(FOLDER.prefix) for key in store.keys}

    run(scenario())


def test_an_empty_log_does_not_take_the_place_of_its_copy() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        first = Leader(store, Replica(5), 1)
        await first.work(first.append(20), first.copy)
        with pytest.raises(BadManifestError, match="the log is empty"):
            await Leader(store, Replica(5), 2).claim()
        await check_state(store)

    run(scenario())


def test_lost_log_makes_the_copy_take_over() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        first = Leader(store, Replica(5), 1)
        await first.work(first.append(20), first.copy)
        for end in (0, 7):  # 7: a rebuilding that was interrupted
            view = LogView(0, 0, end, (), is_lost=True)
            claim = await claim_manifest(
                store, FOLDER, ManifestWriter(0, 2 + end, "x"), view, NOW, compacted=True
            )
            assert (claim.decision, claim.start_at, claim.cut_at) == (Decision.START_AT, 20, None)
            assert not claim.file.manifest.quarantine
        await check_state(store)

    run(scenario())


def test_objects_missing_in_an_unclean_leader_are_quarantined() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        first = Leader(store, Replica(5), 1)
        await first.work(first.append(20), first.copy)
        behind = Replica(5)
        behind.append(12)
        unclean = Leader(store, behind, 2)
        await unclean.work(unclean.roll, unclean.copy)
        assert [(each.base, each.end) for each in manifest_in(store).quarantine] == [(15, 20)]
        await finish(store, unclean)

    run(scenario())
