"""Advances time in small steps and checks the invariants after each."""

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
MENDING_SECONDS = 90.0  # worst case: a session expires, the ISR shrinks, a log is fetched again


class Watch:
    def __init__(self, world: World, workload: Workload, invariants: Invariants) -> None:
        self._world = world
        self._workload = workload
        self._invariants = invariants
        self.expects_losses = False
        """After an unclean election, acknowledged records may be lost, and replicas differ temporarily."""
        self._coverage = None if world.tiers is None else Coverage(world.tiers, world.machines)

    async def wait(self, seconds: float) -> None:
        """Advance time by `seconds`, checking the invariants at every step."""
        over = self._world.loop.create_future()
        self._look_until(self._world.loop.now + seconds, over)
        if not over.done():
            await over

    def _look_until(self, end: float, over: asyncio.Future[None]) -> None:
        """Run as a loop callback, so that a violation ends the scenario even if no task awaits it."""
        self._check()
        left = end - self._world.loop.now
        if left > 0:
            self._world.loop.call_later(min(left, CHECK_SECONDS), self._look_until, end, over)
        elif not over.done():  # cancelled if the scenario has ended
            over.set_result(None)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        end = self.mending_ends()
        while not condition():
            if self._world.loop.time() > end:
                raise Violation(f"this never came true: {what}")
            await self.wait(CHECK_SECONDS)

    def mending_ends(self) -> float:
        """Deadline for full recovery if no further faults occur."""
        return self._world.loop.time() + MENDING_SECONDS

    def look_at_everything(self) -> None:
        self._invariants.check(self._world.image(), thorough=True)

    def _check(self) -> None:
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
        """True if the machine's replicas are in the ISR and hold all acknowledged records."""
        topic = image.topics.get(TOPIC)  # None if deleted
        states = topic.partitions if topic is not None else ()
        held = machine.broker.replicas.by_name.get(TOPIC, {}) if machine.broker is not None else {}
        return all(
            machine.number in state.isr
            and index in held
            and held[index].log.log_end_offset > self._workload.writers[index].last_acknowledged
            for index, state in enumerate(states)
            if machine.number in state.replicas
        )
