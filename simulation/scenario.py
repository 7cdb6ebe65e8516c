"""One scenario of a seed: brokers and links fail and recover while clients produce and consume; then all is healed."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from itertools import count

from barnabas.common.safe_logging import line_limit
from barnabas.controller.internal_topics import internal_topic
from barnabas.controller.topics import NewTopic, create_topics
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from simulation.brokers import SimulatedBroker
from simulation.clients import TOPIC, Violation
from simulation.ending import Comparison, Mending
from simulation.faults import REPLICAS, Faults
from simulation.invariants import Invariants
from simulation.loop import NothingLeftToDo
from simulation.operator import SCRATCH
from simulation.tiers.deletion import TopicDeletion
from simulation.tiers.unclean import UncleanElection
from simulation.watch import Watch
from simulation.workload import PARTITIONS, Workload
from simulation.world import World

ENDING_ROUNDS = 20
SCENARIO_SECONDS = 3.0
FAULTS_PER_SECOND = (1.5, 3.0, 5.0, 9.0)
"""With few faults clients make progress; with many, failures coincide."""
FAULTS_IF_TIERED = (
    2.0,
    4.0,
    7.0,
)  # in addition to the traps at copy steps, which need segments to copy


class ScenarioFailed(Exception):  # noqa: N818 - a finding, not an error of the simulator
    def __init__(self, seed: int, reason: str, events: list[str]) -> None:
        super().__init__(seed, reason, events)  # all arguments, so that it can be pickled
        self.seed = seed
        self.reason = reason
        self.events = events

    def __str__(self) -> str:
        return "\n".join((f"seed {self.seed}: {self.reason}", *self.events))


class LoggedErrors(logging.Handler):
    """Captures broker logs during a scenario: nothing is printed, but a logged exception is a finding. `first` is the
    first logged exception with its message."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: str | None = None
        self._logger = logging.getLogger("barnabas")

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and self.first is None:
            formatter = logging.Formatter()
            self.first = f"{record.getMessage()}\n{formatter.formatException(record.exc_info)}"

    def __enter__(self) -> None:
        line_limit.forget()  # reset rate limits of the previous scenario
        self._before = self._logger.propagate
        self._logger.propagate = False
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._before


class Scenario:
    """`tiered`: segments are copied to an unreliable object store. At the end of a tiered scenario, `unclean` adds an
    unclean leader election, and `deleted` deletes the topic."""

    def __init__(
        self,
        seed: int,
        *,
        tiered: bool = False,
        unclean: bool = False,
        deleted: bool = False,
        thorough: bool = False,
    ) -> None:
        self.seed = seed
        self._is_unclean = unclean
        self._is_deleted = deleted
        self.world = World(seed, tiered=tiered)
        self.workload = Workload(self.world)
        self.faults = Faults(self.world)
        invariants = Invariants(
            self.world.machines, self.workload.writers, thorough=thorough, starts_move=tiered
        )
        self._watch = Watch(self.world, self.workload, invariants)

    @property
    def events(self) -> list[str]:
        return self.world.events

    def run(self) -> None:
        """Run the scenario; raise ScenarioFailed on a violation."""
        logged = LoggedErrors()
        random.seed(self.seed)
        try:
            with logged:
                asyncio.set_event_loop(self.world.loop)
                self.world.loop.run_until_complete(self._play())
                if logged.first is not None:
                    raise Violation(logged.first)
        except Exception as error:
            raise ScenarioFailed(self.seed, _reason(error), self.events) from error
        finally:
            self._end()

    def _end(self) -> None:
        """Let every task finish: those of suspended processes, and those started by the shutdown of others (the end of
        a controller's session triggers an election)."""
        loop = self.world.loop
        loop.continue_all()
        for _ in range(ENDING_ROUNDS):
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.call_soon(loop.stop)
            loop.run_forever()
            if not asyncio.all_tasks(loop):
                break
        asyncio.set_event_loop(None)
        loop.close()

    async def _play(self) -> None:
        world, watch = self.world, self._watch
        await self._begin()
        if world.tiers is not None:
            world.tiers.traps.are_armed = True
        end = world.loop.time() + SCENARIO_SECONDS
        rate = world.rng.choice(FAULTS_PER_SECOND if world.tiers is None else FAULTS_IF_TIERED)
        if self.workload.has_transactions:
            rate /= 2  # a transaction takes many requests
        while world.loop.time() < end:
            await watch.wait(world.rng.expovariate(rate))
            await self.faults.next()
        await Mending(world, self.workload, watch).run(self.faults)
        await Comparison(world, self.workload, watch).run()
        if self._is_unclean:
            await UncleanElection(world, self.workload, watch).run()
        if self._is_deleted:
            await TopicDeletion(world, self.workload, watch).run()

    async def _begin(self) -> None:
        """Start the brokers, create the topics, start the clients."""
        machines = self.world.machines
        for machine in machines:
            machine.start()
        await self._watch.until(lambda: all(machine.serves for machine in machines), "the brokers start")
        controller = self.world.controller()
        assert controller is not None
        topics = [
            NewTopic(TOPIC, PARTITIONS, REPLICAS, configs=self.workload.settings),
            NewTopic(SCRATCH, 1, REPLICAS),
            self._internal_topic(controller, CONSUMER_OFFSETS),
            self._internal_topic(controller, TRANSACTION_STATE),
        ]
        ids = (bytes([number] * 16) for number in count(7))
        await controller.controller.submit(
            lambda image: create_topics(image, topics, controller.policy, new_id=lambda: next(ids))
        )
        self.workload.start()

    def _internal_topic(self, controller: SimulatedBroker, name: str) -> NewTopic:
        """Internal topic on randomly drawn machines: a broker that leads both topics sends itself no requests."""
        topics = internal_topic(controller.config, controller.image, name, is_alone=False)
        assert topics is not None
        needed = self.world.variant.internal_replicas
        replicas = [machine.number for machine in self.world.rng.sample(self.world.machines, needed)]
        configs = {**topics.configs, "min.insync.replicas": str(min(needed, 2))}
        return NewTopic(name, assignments=[(0, replicas)], configs=configs)


def _reason(error: Exception) -> str:
    if isinstance(error, Violation | NothingLeftToDo):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))  # the traceback locates a simulator or broker bug
