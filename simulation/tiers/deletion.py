"""A tiered topic is deleted while records are written and copied, brokers die and the store fails: all of its objects
must be deleted.

The pending deletion survives changes of the controller. An upload of a leader that died may arrive later; the last
sweep must delete it.
"""

from __future__ import annotations

import asyncio

from barnabas.broker.tiering.deletions import LINGER_SECONDS
from barnabas.controller.topics import delete_topics
from barnabas.tiering.objects.layout import PartitionFolder
from simulation.clients import TOPIC, Violation
from simulation.tiers.faults import RATES
from simulation.watch import Watch
from simulation.workload import PARTITIONS, Workload
from simulation.world import World

WRITTEN = 12  # records, some of which are being copied
BLOWS = 3  # faults during the deletion
BETWEEN = (0.05, 0.5, 3.0)  # seconds between faults
LATEST = LINGER_SECONDS + 300.0  # plus the longest backoff
POLL_SECONDS = 1.0


class TopicDeletion:
    """Runs once all faults are healed and all replicas are equal."""

    def __init__(self, world: World, workload: Workload, watch: Watch) -> None:
        assert world.tiers is not None
        self._world = world
        self._workload = workload
        self._watch = watch
        self._bucket = world.tiers.bucket
        image = world.image()
        topic_id = image.topics[TOPIC].topic_id
        self._topic_id = topic_id
        self._prefixes = tuple(
            PartitionFolder(image.cluster_id, TOPIC, topic_id, index).prefix for index in range(PARTITIONS)
        )

    async def run(self) -> None:
        self._workload.stop()
        writing = asyncio.ensure_future(self._workload.writers[0].write(WRITTEN))
        await self._watch.until(writing.done, f"{WRITTEN} records are written")
        writing.result()
        self._watch.expects_losses = True
        self._bucket.fail_at_random(self._world.rng.choice(RATES))
        await self._delete()
        for _ in range(BLOWS):
            await self._watch.wait(self._world.rng.choice(BETWEEN))
            await self._strike()
        self._bucket.heal()
        await self._watch.until(self._all_serve, "all brokers serve")
        await self._wait_until_all_is_gone()

    async def _delete(self) -> None:
        controller = self._world.controller()
        assert controller is not None
        self._world.note("the topic is deleted")
        await controller.controller.submit(lambda image: delete_topics(image, [self._topic_id]))

    async def _strike(self) -> None:
        """Kill a broker, often the controller; the store may be unavailable during its restart."""
        controller, rng = self._world.controller(), self._world.rng
        machine = rng.choice(self._world.machines)
        if controller is not None and rng.random() < 0.5:
            machine = self._world.machines[controller.node_id - 1]
        self._bucket.is_down = rng.random() < 0.5
        self._world.note(f"broker {machine.number} is killed; the store answers: {not self._bucket.is_down}")
        await machine.kill()
        await self._watch.wait(rng.choice(BETWEEN))
        machine.start()

    def _all_serve(self) -> bool:
        return all(machine.serves for machine in self._world.machines)

    async def _wait_until_all_is_gone(self) -> None:
        end = self._world.loop.time() + LATEST
        while left := self.left():
            if self._world.loop.time() > end:
                raise Violation(f"the topic is deleted, and {left} are still there")
            await self._watch.wait(POLL_SECONDS)

    def left(self) -> list[str]:
        return [key for key in self._bucket.objects.keys if key.startswith(self._prefixes)]
