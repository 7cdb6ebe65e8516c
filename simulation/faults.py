"""Faults, repairs and operator actions on a cluster, chosen at random by weight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeAlias

from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.controller.decision import Decision
from barnabas.controller.reassignment import alter_reassignments
from simulation.brokers import LOG_DIRS, Machine, SimulatedBroker
from simulation.clients import TOPIC, Violation
from simulation.network import LATENESS
from simulation.operator import Operator
from simulation.tiers.faults import StoreFaults
from simulation.workload import PARTITIONS
from simulation.world import World

REPLICAS = 3
STOPPING_SECONDS = 30.0
PAUSES = (0.2, 0.6, 1.2, 2.5)  # shorter and longer than the session timeout

Action: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Faults:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng
        self._network = world.network
        self._operator = Operator(world.rng, TOPIC)
        weighted: tuple[tuple[int, Action], ...] = (
            (5, self._kill),
            (2, self._lose_power),
            (3, self._pause),
            (3, self._stop),
            (9, self._start),
            (4, self._cut_link),
            (4, self._heal_links),
            (2, self._cut_session),
            (3, self.heal_sessions),
            (1, self._expire_session),
            (3, self._change_network),
            (2, self._move),
            (3, self._move_to_other_dir),
            (4, self._slow_disk),
            (3, self._change_settings),
        )
        weighted += ((2, self._lose_folder),)
        self.store: StoreFaults | None = None
        if world.tiers is not None:
            self.store = StoreFaults(world, self._pause_for_a_while, self._end, self._may_lose_power)
            weighted += self.store.weighted
        self._weights = [weight for weight, _ in weighted]
        self._actions = [action for _, action in weighted]

    async def next(self) -> None:
        await self._rng.choices(self._actions, self._weights)[0]()

    # -- machines -----------------------------------------------------------------------------------

    async def _kill(self) -> None:
        if machine := self._world.pick(up=True):
            self._world.note(f"broker {machine.number} is killed")
            await machine.kill()

    async def _lose_power(self) -> None:
        machine = self._world.pick(up=True)
        if machine is not None and self._may_lose_power():
            self._world.note(f"machine {machine.number} loses power")
            await machine.kill(power=True)

    def _may_lose_power(self) -> bool:
        """False if a single machine may hold the only, unsynced copy of acknowledged records."""
        return self._may_lose_data() and self._world.variant.internal_replicas > 1

    def _may_lose_data(self) -> bool:
        """True if no machine has lost data yet: acknowledged records survive the loss of any one machine."""
        return not self._operator.has_lowered_minimum and not self._data_was_lost()

    def _data_was_lost(self) -> bool:
        return any(machine.lost_data for machine in self._world.machines)

    async def _lose_folder(self) -> None:
        """Stop the whole cluster; the last leader restarts first, without one of its partition folders."""
        if not self._may_lose_data():
            return
        self._world.note("all brokers are stopped")
        last = None
        for machine in self._rng.sample(self._world.machines, len(self._world.machines)):
            if machine.is_up:
                await self._end(machine)
                last = machine
        tp = TopicPartition(TOPIC, self._rng.randrange(PARTITIONS))
        # Stopping takes seconds, during which a trap may cut the power of another machine.
        if last is not None and self._may_lose_data() and last.lose_folder(tp):
            self._world.note(f"machine {last.number} loses the folder of {tp}, and its broker starts")
            last.start()

    async def _end(self, machine: Machine) -> None:
        """Shut down cleanly if the broker is able to, otherwise kill it."""
        if machine.serves and not machine.is_stopped:
            await self._stop_in_order(machine)
        else:
            await machine.kill()

    async def _pause(self) -> None:
        machine = self._world.pick(up=True)
        if machine is not None and not machine.is_stopped:
            self._pause_for_a_while(machine)

    def _pause_for_a_while(self, machine: Machine) -> None:
        seconds = self._rng.choice(PAUSES)
        self._world.note(f"broker {machine.number} does nothing for {seconds} s")
        machine.pause()
        self._world.loop.call_later(seconds, self._resume, machine, machine.broker, context=Context())

    def _resume(self, machine: Machine, broker: SimulatedBroker | None) -> None:
        if machine.broker is broker and machine.is_stopped:
            self._world.note(f"broker {machine.number} resumes")
            machine.resume()

    async def _stop(self) -> None:
        machine = self._world.pick(up=True)
        if machine is not None and machine.serves and not machine.is_stopped:
            self._world.note(f"broker {machine.number} is stopped")
            await self._stop_in_order(machine)

    async def _stop_in_order(self, machine: Machine) -> None:
        try:
            async with asyncio.timeout(STOPPING_SECONDS):
                await machine.stop()
        except TimeoutError:
            raise Violation(f"broker {machine.number} does not come to an end") from None

    async def _start(self) -> None:
        if machine := self._world.pick(up=False):
            self._world.note(f"broker {machine.number} starts")
            machine.start()

    async def _slow_disk(self) -> None:
        machine = self._world.pick(up=True)
        if machine is not None and machine.serves and not machine.is_stopped:
            folder = self._rng.choice(LOG_DIRS)
            failing = self._rng.choice((0, 0, 1, 3, 10))
            self._world.note(f"{folder} of broker {machine.number} is slow; no room for append {failing}")
            machine.slow_down(folder, failing)

    # -- network and sessions -----------------------------------------------------------------------

    async def _cut_link(self) -> None:
        cuts = self._network.cuts
        one, other = (machine.number for machine in self._rng.sample(self._world.machines, 2))
        cuts.add((one, other))
        if self._rng.random() < 0.5:
            cuts.add((other, one))
        self._world.note(f"cut between brokers: {sorted(cuts)}")

    async def _heal_links(self) -> None:
        self._network.cuts.clear()
        self._world.note("all links are whole")

    async def _cut_session(self) -> None:
        machine = self._world.pick(up=True)
        if machine is not None and machine.session is not None and not machine.is_stopped:
            self._world.note(f"broker {machine.number} is cut off from the coordinator")
            machine.session.cut()

    async def heal_sessions(self) -> None:
        self._world.note("the coordinator can be reached")
        for machine in self._world.machines:
            if machine.session is not None and not machine.session.is_connected and not machine.is_stopped:
                machine.session.heal()

    async def _expire_session(self) -> None:
        machine = self._world.pick(up=True)
        if machine is not None and machine.session is not None and machine.serves and not machine.is_stopped:
            self._world.note(f"the session of broker {machine.number} expires")
            machine.session.expire()

    async def _change_network(self) -> None:
        network = self._network
        network.loss = self._rng.choice((0.0, 0.0, 0.02, 0.2))
        network.duplication = self._rng.choice((0.0, 0.1))
        network.lateness = self._rng.choice(LATENESS)
        self._world.note(
            f"the network loses {network.loss:.0%}, repeats {network.duplication:.0%}, "
            f"delivers {network.lateness:.0%} late"
        )

    # -- operator -----------------------------------------------------------------------------------

    async def _move(self) -> None:
        controller = self._controller_that_runs()
        if controller is None:
            return
        tp = TopicPartition(TOPIC, self._rng.randrange(PARTITIONS))
        replicas = [machine.number for machine in self._rng.sample(self._world.machines, REPLICAS)]
        target = self._rng.choice((None, replicas))
        self._world.note(f"{tp} is to move to {target}")
        await self._ask(
            controller, lambda image: alter_reassignments(image, [(tp, target)], controller.policy)
        )

    async def _change_settings(self) -> None:
        controller = self._controller_that_runs()
        if controller is None:
            return
        words, decision = self._operator.wish(controller, one_may_do=not self._data_was_lost())
        self._world.note(words)
        await self._ask(controller, decision)

    def _controller_that_runs(self) -> SimulatedBroker | None:
        controller = self._world.controller()
        is_stopped = controller is not None and self._world.machines[controller.node_id - 1].is_stopped
        return None if is_stopped else controller

    async def _ask(self, controller: SimulatedBroker, decision: Decision[Any]) -> None:
        replicas = asyncio.ensure_future(controller.controller.submit(decision))
        # A controller cut off from the coordinator learns the outcome much later, and may die before that.
        await asyncio.wait([replicas], timeout=1.0)
        if not replicas.done():
            replicas.cancel()
            self._world.note("which fails: no answer")
        elif replicas.cancelled():
            self._world.note("which fails: the controller has stopped")
        elif isinstance(error := replicas.exception(), KafkaError):
            self._world.note(f"which fails: {error}")
        elif error is not None:
            raise error

    async def _move_to_other_dir(self) -> None:
        machine = self._world.pick(up=True)
        if machine is None or not machine.serves or machine.is_stopped:
            return
        tp = TopicPartition(TOPIC, self._rng.randrange(PARTITIONS))
        folder = self._rng.choice(LOG_DIRS)
        self._world.note(f"{tp} of broker {machine.number} moves to {folder}")
        try:
            machine.move_to_dir(tp, folder)
        except KafkaError as error:
            self._world.note(f"which fails: {error}")
