"""End of a scenario: heal all faults, then compare the logs of the brokers with the responses clients received."""

from __future__ import annotations

from barnabas.log.log import Log
from simulation.brokers import Machine
from simulation.clients import TOPIC, Committer, Reader, Violation, Writer
from simulation.faults import Faults
from simulation.invariants import check_epochs, contents, memory
from simulation.operator import SCRATCH
from simulation.tiers.ending import TierEnding
from simulation.trader import MARK, CommittedReader
from simulation.watch import Watch
from simulation.workload import PARTITIONS, Workload
from simulation.world import World


class Mending:
    def __init__(self, world: World, workload: Workload, watch: Watch) -> None:
        self._world = world
        self._workload = workload
        self._watch = watch
        self._tiers = None if world.tiers is None else TierEnding(world, workload, watch)

    async def run(self, faults: Faults) -> None:
        world, until = self._world, self._watch.until
        world.note("all faults end")
        world.network.mend()
        if self._tiers is not None:
            self._tiers.mend()
        for machine in world.machines:
            machine.resume()
        await faults.heal_sessions()
        for machine in world.machines:
            if not machine.is_up:
                machine.start()
        await until(lambda: all(machine.serves for machine in world.machines), "all brokers serve")
        await until(self._all_in_sync, "all replicas are in sync")
        await until(
            lambda: world.image().topics[SCRATCH].partitions[0].leader >= 0, "every partition has a leader"
        )
        self._workload.ask_to_finish()
        await until(self._workload.has_finished, "all is written")
        await until(self._all_ends_equal, "all replicas have the same end")
        await until(
            lambda: not any(machine.moves_replicas for machine in world.machines), "all replicas have moved"
        )
        if self._tiers is not None:
            await self._tiers.settle()

    def _all_in_sync(self) -> bool:
        return all(
            set(state.isr) == set(state.replicas) and state.leader >= 0 and not state.being_reassigned
            for state in self._world.image().topics[TOPIC].partitions
        )

    def _all_ends_equal(self) -> bool:
        return all(
            len({(log.log_end_offset, log.high_watermark) for log in logs}) == 1
            and logs[0].last_stable_offset == logs[0].log_end_offset
            for logs in (logs_of(self._world, index) for index in range(PARTITIONS))
        )


class Comparison:
    def __init__(self, world: World, workload: Workload, watch: Watch) -> None:
        self._world = world
        self._workload = workload
        self._watch = watch
        self._tiers = None if world.tiers is None else TierEnding(world, workload, watch)

    async def run(self) -> None:
        """Raise Violation on any difference between replicas, images or client results."""
        workload = self._workload
        self._watch.look_at_everything()
        for writer, reader in zip(workload.writers, workload.readers, strict=True):
            await self._compare_replicas(writer.index)
            start = await self._read_again(reader)
            _compare_values(writer, reader, start)
        if self._tiers is not None:
            await self._tiers.compare()
        if workload.has_transactions:
            await self._compare_transactions()
        else:
            for committer in workload.committers:
                await self._compare_commits(committer)
        for machine in self._world.machines:
            _check_files(machine)
        await self._compare_images()

    async def _compare_replicas(self, index: int) -> None:
        """Wait until the replicas are equal: a preferred leader election or transaction marker may still be pending."""

        def are_alike() -> bool:
            logs = logs_of(self._world, index)
            since = max(log.offsets.local_start for log in logs)
            return len({log.log_end_offset for log in logs}) == 1 and all(
                contents(log, since) == contents(logs[0], since) for log in logs
            )

        await self._watch.until(are_alike, f"the replicas of partition {index} are alike")
        logs = logs_of(self._world, index)
        start = _start_of(logs)
        if any(memory(log, start) != memory(logs[0], start) for log in logs):
            raise Violation(f"the replicas of partition {index} remember different things")

    async def _compare_images(self) -> None:
        image = self._world.image
        brokers = [machine.broker for machine in self._world.machines if machine.broker is not None]
        await self._watch.until(
            lambda: all(broker.image.offset == image().offset for broker in brokers), "all know all"
        )
        for machine in self._world.machines:
            if machine.broker is not None and machine.broker.image != image():
                raise Violation(f"broker {machine.number} has another image than a replay of the log gives")

    async def _read_again(self, reader: Reader) -> int:
        """Reread the partition from the current leader, which may still change to the preferred one; return the start
        offset."""
        logs = logs_of(self._world, reader.index)
        start, end = _start_of(logs), logs[0].log_end_offset
        deadline = self._watch.mending_ends()
        known, reader.seen, reader.position = reader.seen, {}, start
        while reader.position < end:
            state = self._world.image().topics[TOPIC].partitions[reader.index]
            reader.epoch = state.leader_epoch
            if not await reader.read_once(state.leader):
                await self._watch.wait(0.05)
            if self._world.loop.time() > deadline:
                raise Violation(f"partition {reader.index} cannot be read from {reader.position} to {end}")
        for offset, value in known.items():
            if offset >= start and reader.seen.get(offset) != value:
                raise Violation(f"offset {offset} of partition {reader.index} was {value!r} and is lost")
        return start

    async def _compare_transactions(self) -> None:
        world, readers = self._world, self._workload.committed_readers
        for index, reader in enumerate(readers):
            again = CommittedReader(world.network, index, world.image, world.rng)
            await self._read_again(reader)
            await self._read_again(again)
            if taken_back := reader.seen.keys() - again.seen.keys():
                raise Violation(
                    f"offsets {sorted(taken_back)} of partition {index} were seen as committed, and are not"
                )
        for trader in self._workload.traders:
            trader.compare([reader.seen for reader in readers])

    async def _compare_commits(self, committer: Committer) -> None:
        end = self._watch.mending_ends()
        while (found := await committer.committed_offset()) is None:
            if self._world.loop.time() > end:
                raise Violation("the coordinator does not answer")
            await self._watch.wait(0.1)
        if found < committer.acknowledged:
            raise Violation(
                f"offset {committer.acknowledged} was committed, and {found} is what is left of it"
            )


def logs_of(world: World, index: int) -> list[Log]:
    """Logs of all replicas of a partition that are hosted by a running broker."""
    replicas = world.image().topics[TOPIC].partitions[index].replicas
    brokers = [machine.broker for machine in world.machines if machine.number in replicas]
    found = [broker.replicas.find(TOPIC, index) for broker in brokers if broker is not None]
    return [partition.log for partition in found if partition is not None]


def _check_files(machine: Machine) -> None:
    """Check that offsets increase in each log, including internal topics."""
    assert machine.broker is not None
    for log in machine.broker.logs:
        offsets = [offset for offset, _, _ in contents(log)]
        check_epochs(log)
        if offsets != sorted(set(offsets)):
            raise Violation(
                f"{log.topic_partition} of broker {machine.number} has batches in the order {offsets}"
            )


def _start_of(logs: list[Log]) -> int:
    """Highest log start offset: it is checkpointed lazily, so a killed broker may have an older one, as with Kafka."""
    return max(log.log_start_offset for log in logs)


def _compare_values(writer: Writer, reader: Reader, start: int) -> None:
    for offset, value in writer.acknowledged.items():
        if offset >= start and reader.seen.get(offset) != str(value).encode():
            raise Violation(
                f"value {value} was acknowledged at offset {offset} of partition {writer.index}, "
                f"where {reader.seen.get(offset)!r} is"
            )
    seen = [reader.seen[offset] for offset in sorted(reader.seen) if offset >= start]
    values = [int(value) for value in seen if not value.startswith(MARK)]
    first = values[0] if start and values else 0
    if values != list(range(first, first + len(values))):
        raise Violation(f"partition {writer.index} has values twice, out of order or not at all: {values}")
