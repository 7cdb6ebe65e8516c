"""Unclean election, by an operator, of a replica that lacks records: it leads only once it has read the manifest.

One replica is stopped while the others write and copy, and then those die. Copied records are committed and must
survive; others may be lost. While the store is unavailable, the new leader waits and accepts no records.
"""

from __future__ import annotations

import asyncio

from barnabas.common.types import TopicPartition
from barnabas.controller.elections import elect_leaders
from barnabas.controller.partitions import Election
from barnabas.replication.partition import Partition
from simulation.brokers import Machine
from simulation.clients import FIRST_PRODUCER_ID, TOPIC, Reader, Violation, Writer
from simulation.operator import set_minimum
from simulation.tiers.ending import TierEnding
from simulation.watch import Watch
from simulation.workload import Workload
from simulation.world import World

TP = TopicPartition(TOPIC, 0)
WRITTEN = 12  # records that the stopped replica lacks: a few segments
WAITS = 1.0  # seconds for which the store is unavailable


class UncleanElection:
    """Runs once all faults are healed and all replicas are equal."""

    def __init__(self, world: World, workload: Workload, watch: Watch) -> None:
        assert world.tiers is not None
        self._world = world
        self._workload = workload
        self._watch = watch
        self._bucket = world.tiers.bucket
        self._tiers = TierEnding(world, workload, watch)

    async def run(self) -> None:
        self._workload.stop()
        await self._let_two_be_enough()
        state = self._world.image().topics[TOPIC].partitions[TP.partition]
        others = [self._world.machines[number - 1] for number in state.replicas]
        sleeper = others.pop()
        self._world.note(f"broker {sleeper.number} sleeps, and will be elected uncleanly")
        await sleeper.stop()
        await self._write(Writer, WRITTEN)
        kept = await self._copied_upto()
        for machine in others:
            await machine.kill()
        self._watch.expects_losses = True
        await self._elect(sleeper)
        for machine in others:
            machine.start()
        await self._watch.until(self._is_whole, "all replicas are in sync after an unclean election")
        await self._write(LaterWriter, 3)
        await self._check(kept)

    async def _let_two_be_enough(self) -> None:
        """Lower min.insync.replicas to 2: it may be 3, and one replica is about to be stopped."""
        await self._watch.until(lambda: self._world.controller() is not None, "there is a controller")
        controller = self._world.controller()
        assert controller is not None
        await controller.controller.submit(set_minimum(controller, TOPIC, 2))

    async def _write(self, kind: type[Writer], count: int) -> None:
        known = self._workload.writers[TP.partition]
        writer = known if kind is Writer else kind(*known.parts)
        writing = asyncio.ensure_future(writer.write(count))
        await self._watch.until(writing.done, f"{count} records are written")
        writing.result()

    async def _copied_upto(self) -> dict[int, int]:
        """Values by offset below the tiered end, once the tiered end no longer advances."""
        await self._tiers.settle()
        manifest = next(
            led_partition.writer.manifest
            for partition, led_partition in self._tiers.led()
            if partition.index == 0
        )
        assert manifest is not None
        acknowledged = self._workload.writers[0].acknowledged
        start, end = manifest.log_start, manifest.tiered_end
        return {offset: value for offset, value in acknowledged.items() if start <= offset < end}

    async def _elect(self, machine: Machine) -> None:
        self._bucket.is_down = self._world.rng.random() < 0.5
        machine.start()
        await self._watch.until(lambda: machine.serves and self._has_no_leader(), "no broker may lead")
        await self._watch.until(lambda: self._world.controller() is not None, "there is a controller")
        controller = self._world.controller()
        assert controller is not None
        self._world.note(f"broker {machine.number} is elected; the store answers: {not self._bucket.is_down}")
        await controller.controller.submit(
            lambda image: elect_leaders(image, [TP], Election.UNCLEAN, controller.policy)
        )
        if self._bucket.is_down:
            await self._stays_offline(machine)
        self._bucket.heal()
        await self._watch.until(
            lambda: self._replica(machine).is_leader, "it leads when it knows the manifest"
        )

    async def _stays_offline(self, machine: Machine) -> None:
        end = self._replica(machine).log.log_end_offset
        await self._watch.wait(WAITS)
        replica = self._replica(machine)
        if replica.is_leader or replica.log.log_end_offset != end:
            raise Violation("an uncleanly elected leader did not wait for the manifest")

    def _replica(self, machine: Machine) -> Partition:
        assert machine.broker is not None
        found = machine.broker.replicas.find(*TP)
        assert found is not None
        return found

    def _has_no_leader(self) -> bool:
        return self._world.image().topics[TOPIC].partitions[TP.partition].leader < 0

    def _is_whole(self) -> bool:
        states = self._world.image().topics[TOPIC].partitions
        return all(state.leader >= 0 and set(state.isr) == set(state.replicas) for state in states)

    async def _check(self, kept: dict[int, int]) -> None:
        """Check that the copied records are unchanged and that both tiers form one log."""
        world = self._world
        reader = Reader(world.network, TP.partition, world.image, world.rng)
        await self._watch.until(self._is_whole, "all replicas are in sync")
        leader = world.image().topics[TOPIC].partitions[TP.partition].leader
        log = self._replica(world.machines[leader - 1]).log
        reader.position, deadline = log.log_start_offset, self._watch.mending_ends()
        while reader.position < log.log_end_offset:
            state = world.image().topics[TOPIC].partitions[TP.partition]
            reader.epoch = state.leader_epoch
            if not await reader.read_once(state.leader):
                await self._watch.wait(0.05)
            if world.loop.time() > deadline:
                raise Violation(f"offset {reader.position} cannot be read after an unclean election")
        for offset, value in kept.items():
            if offset >= log.log_start_offset and reader.seen.get(offset) != str(value).encode():
                raise Violation(
                    f"value {value} was copied at {offset}, where {reader.seen.get(offset)!r} is now"
                )
        await self._tiers.compare()


class LaterWriter(Writer):
    """New producer: the previous one may have lost some of its records."""

    first_producer_id = FIRST_PRODUCER_ID + 1000
