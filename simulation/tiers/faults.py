"""Faults of the object store, and of brokers at the steps of copying and expiring."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeAlias

from barnabas.tiering.writing.pacing import Step
from simulation.brokers import Machine
from simulation.clients import TOPIC
from simulation.tiers.traps import Trap
from simulation.world import World

Action: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

RATES = (0.0, 0.05, 0.05, 0.3)
PASSES = {
    Step.LOG_START_RAISED: 12,
    Step.LISTED_AS_GARBAGE: 12,
}  # steps of every round; the others occur only when a segment is copied or deleted
VISITS = 3
OUTAGE = 1.0  # seconds without a store during an election: a few rounds of retention
FIRST_TRAPS = 3  # traps set before the first fault


class StoreFaults:
    """`pause` suspends a machine for a while, `end` stops its broker."""

    def __init__(
        self,
        world: World,
        pause: Callable[[Machine], None],
        end: Callable[[Machine], Coroutine[Any, Any, None]],
        may_lose_power: Callable[[], bool],
    ) -> None:
        assert world.tiers is not None
        self._world = world
        self._rng = world.rng
        self._bucket = world.tiers.bucket
        self._traps = world.tiers.traps
        self._pause = pause
        self._end = end
        self._may_lose_power = may_lose_power
        for _ in range(FIRST_TRAPS):
            self._set_any_trap()
        self.weighted: tuple[tuple[int, Action], ...] = (
            (12, self._set_trap),
            (3, self._fail_at_random),
            (2, self._go_down),
            (3, self._cut_off),
            (3, self._elect_without_store),
            (4, self._come_back),
            (1, self._deny),
            (1, self._fill_up),
        )

    # -- object store -------------------------------------------------------------------------------

    async def _fail_at_random(self) -> None:
        rate = self._rng.choice(RATES)
        self._world.note(f"the object store fails {rate:.0%} of all requests")
        self._bucket.fail_at_random(rate)

    async def _go_down(self) -> None:
        self._world.note("the object store does not answer")
        self._bucket.is_down = True

    async def _cut_off(self) -> None:
        number = self._rng.choice(self._world.machines).number
        self._world.note(f"broker {number} does not reach the object store")
        self._bucket.cut_off.add(number)

    async def _elect_without_store(self) -> None:
        """Stop the leader of a partition while its successor cannot read the manifest."""
        leader = self._rng.choice(self._world.image().topics[TOPIC].partitions).leader
        if leader > 0 and self._world.machines[leader - 1].is_up:
            self._world.note(f"the object store does not answer, and broker {leader} stops")
            self._bucket.is_down = True
            self._world.loop.call_later(OUTAGE, self._answer_again, context=Context())
            await self._end(self._world.machines[leader - 1])

    def _answer_again(self) -> None:
        self._bucket.is_down = False

    async def _come_back(self) -> None:
        self._world.note("the object store can be reached")
        self._bucket.is_down = False
        self._bucket.cut_off.clear()

    async def _deny(self) -> None:
        self._world.note("the object store refuses some requests")
        self._bucket.deny(self._rng.randint(1, 5))

    async def _fill_up(self) -> None:
        self._world.note("the object store has little room left")
        self._bucket.fill_up()

    # -- brokers ------------------------------------------------------------------------------------

    async def _set_trap(self) -> None:
        self._set_any_trap()

    def _set_any_trap(self) -> None:
        step = self._rng.choice(list(Step))
        visits = self._rng.randint(1, PASSES.get(step, VISITS))
        self.trap(step, visits, self._rng.choice((self.kill, self.kill, self.lose_power, self.stop)))

    def trap(self, step: Step, visits: int, spring: Callable[[Machine, Step], None]) -> None:
        self._traps.set(Trap(step, visits, lambda number: spring(self._world.machines[number - 1], step)))

    def kill(self, machine: Machine, step: Step) -> None:
        self._kill(machine, step, power=False)

    def _kill(self, machine: Machine, step: Step, *, power: bool) -> None:
        self._world.note(f"broker {machine.number} is killed at {step}{', and loses power' if power else ''}")
        burial = machine.bury(machine.die(power=power))
        self._world.loop.create_task(burial, context=Context())

    def lose_power(self, machine: Machine, step: Step) -> None:
        self._kill(machine, step, power=self._may_lose_power())

    def stop(self, machine: Machine, step: Step) -> None:
        if not machine.is_stopped:
            self._world.note(f"broker {machine.number} stops at {step}")
            self._pause(machine)
