"""Lets time pass in small steps, and checks the invariants after each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.cluster.image import MetadataImage
from simulation.brokers import Machine
from simulation.clients import TOPIC, Violation
from simulation.invariants import Invariants, check_slow_disks
from simulation.tiers.coverage import Coverage
from simulation.workload import Workload
from simulation.world import World

CHECK_SECONDS = 0.02
MENDING_SECONDS = 90.0  # the longest way: a session runs out, an ISR shrinks, a log is fetched again


class Watch:
    def __init__(self, world: World, workload: Workload, invariants: Invariants) -> None:
        self._world = world
        self._workload = workload
        self._invariants = invariants
        self.expects_losses = False
        """After an unclean election what was acknowledged may be gone, and replicas differ for a while."""
        self._coverage = None if world.tiers is None else Coverage(world.tiers, world.machines)

    async def wait(self, seconds: float) -> None:
        """Let time pass, and look again and again."""
        over = self._world.loop.create_future()
        self._look_until(self._world.loop.now + seconds, over)
        if not over.done():
            await over

    def _look_until(self, end: float, over: asyncio.Future[None]) -> None:
        """Called by the loop itself: what is wrong ends the scenario, even if no task waits for it."""
        self._look()
        left = end - self._world.loop.now
        if left > 0:
            self._world.loop.call_later(min(left, CHECK_SECONDS), self._look_until, end, over)
        elif not over.done():  # cancelled, when the scenario has ended meanwhile
            over.set_result(None)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        end = self.mending_ends()
        while not condition():
            if self._world.loop.time() > end:
                raise Violation(f"this never came true: {what}")
            await self.wait(CHECK_SECONDS)

    def mending_ends(self) -> float:
        """When whatever is to come right must have, if nothing more happens."""
        return self._world.loop.time() + MENDING_SECONDS

    def look_at_everything(self) -> None:
        self._invariants.check(self._world.image(), thorough=True)

    def _look(self) -> None:
        self._workload.raise_what_failed()
        image = self._world.image()
        if not self.expects_losses:
            self._invariants.check(image)
        if self._coverage is not None:
            self._coverage.check(image)
        for machine in self._world.machines:
            check_slow_disks(machine)
            if machine.lost_data and machine.serves and self._has_all(image, machine):
                machine.lost_data = False

    def _has_all(self, image: MetadataImage, machine: Machine) -> bool:
        """Is it in sync with all that it should hold, and not only believed to be?"""
        topic = image.topics.get(TOPIC)  # it may have been deleted
        states = topic.partitions if topic is not None else ()
        held = machine.broker.replicas.by_name.get(TOPIC, {}) if machine.broker is not None else {}
        return all(
            machine.number in state.isr
            and index in held
            and held[index].log.log_end_offset > self._workload.writers[index].last_acknowledged
            for index, state in enumerate(states)
            if machine.number in state.replicas
        )
