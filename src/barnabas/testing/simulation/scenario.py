"""One story from a seed: brokers and links fail and come back while clients write and read; then all is mended."""

from __future__ import annotations

import asyncio
import random
import traceback

from barnabas.cluster.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.controller.topics import NewTopic, create_topics
from barnabas.testing.simulation.cast import PARTITIONS, Cast
from barnabas.testing.simulation.clients import TOPIC, Violation
from barnabas.testing.simulation.complaints import Complaints
from barnabas.testing.simulation.ending import Comparison, Mending
from barnabas.testing.simulation.happenings import REPLICAS, Happenings
from barnabas.testing.simulation.invariants import Invariants
from barnabas.testing.simulation.loop import NothingLeftToDo
from barnabas.testing.simulation.operator import SCRATCH
from barnabas.testing.simulation.stage import Stage
from barnabas.testing.simulation.watch import Watch

ENDING_ROUNDS = 3
STORY_SECONDS = 3.0
PACES = (3.0, 5.0, 9.0)
"""Events a second: in calm stories clients get on, in wild ones failures meet each other."""


class StoryFailed(Exception):  # noqa: N818 - a finding, not an error of the simulator
    def __init__(self, seed: int, reason: str, events: list[str]) -> None:
        super().__init__(seed, reason, events)  # as given, so that it travels between processes
        self.seed = seed
        self.reason = reason
        self.events = events

    def __str__(self) -> str:
        return "\n".join((f"seed {self.seed}: {self.reason}", *self.events))


class Story:
    def __init__(self, seed: int, *, thorough: bool = False) -> None:
        self.seed = seed
        self.stage = Stage(seed)
        self.cast = Cast(self.stage)
        self._happenings = Happenings(self.stage)
        invariants = Invariants(self.stage.machines, self.cast.writers, thorough=thorough)
        self._watch = Watch(self.stage, self.cast, invariants)

    @property
    def events(self) -> list[str]:
        return self.stage.events

    def run(self) -> None:
        """StoryFailed when something was true that must never be."""
        complaints = Complaints()
        random.seed(self.seed)
        try:
            with complaints:
                asyncio.set_event_loop(self.stage.loop)
                self.stage.loop.run_until_complete(self._tell())
                if complaints.first is not None:
                    raise Violation(complaints.first)
        except Exception as error:
            raise StoryFailed(self.seed, _reason(error), self.events) from error
        finally:
            self._end()

    def _end(self) -> None:
        """Every task takes the step that ends it: those of stopped processes, and those that the end of others begins
        (a controller is elected when the session of the last one ends)."""
        loop = self.stage.loop
        loop.continue_all()
        for _ in range(ENDING_ROUNDS):
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.call_soon(loop.stop)
            loop.run_forever()
        asyncio.set_event_loop(None)
        loop.close()

    async def _tell(self) -> None:
        stage, watch = self.stage, self._watch
        await self._begin()
        end = stage.loop.time() + STORY_SECONDS
        pace = stage.chance.choice(PACES)
        while stage.loop.time() < end:
            await watch.wait(stage.chance.expovariate(pace))
            await self._happenings.next()
        await Mending(stage, self.cast, watch).run(self._happenings)
        await Comparison(stage, self.cast, watch).run()

    async def _begin(self) -> None:
        """Start the brokers, make the topics, let the clients in."""
        machines = self.stage.machines
        for machine in machines:
            machine.start()
        await self._watch.until(lambda: all(machine.serves for machine in machines), "the brokers start")
        controller = self.stage.controller()
        assert controller is not None
        wanted = [
            NewTopic(TOPIC, PARTITIONS, REPLICAS, configs={"min.insync.replicas": "2"}),
            NewTopic(SCRATCH, 1, REPLICAS),
        ]
        ids = iter((bytes([7] * 16), bytes([8] * 16)))
        await controller.controller.submit(
            lambda image: create_topics(image, wanted, controller.policy, new_id=lambda: next(ids))
        )
        internal = TRANSACTION_STATE if self.cast.has_transactions else CONSUMER_OFFSETS
        await controller.coordinators.create_topic(internal)
        self.cast.start()


def _reason(error: Exception) -> str:
    if isinstance(error, Violation | NothingLeftToDo):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))  # whoever raised it is what one wants to know
