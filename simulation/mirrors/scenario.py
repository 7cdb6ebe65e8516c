"""A scenario with a mirror: despite faults at either cluster, the target's log is a prefix of a log that the source had
at some time, with equal epochs, offsets and bytes."""

from __future__ import annotations

import asyncio
from typing import Any

from barnabas.cluster.mirrors import MirrorTopic
from barnabas.log.log import Log
from barnabas.protocol.messages.mirror import MirrorAction, MirrorConfig, MirrorState
from barnabas.replication.partition import Partition
from simulation.clients import Violation
from simulation.faults import REPLICAS
from simulation.invariants import contents
from simulation.mirrors.process import MIRRORED, SOURCE_ID, MirrorProcess, altered
from simulation.mirrors.source import Source
from simulation.scenario import Scenario

POLL_SECONDS = 0.02
PROCESSES = (1, 2)  # two concurrent mirror processes must be harmless


class MirrorScenario(Scenario):
    """`promoted`: the mirror is promoted while faults occur. Otherwise elections at the target may be unclean, too."""

    def __init__(self, seed: int, *, promoted: bool = False) -> None:
        super().__init__(seed)
        self.source = Source(self.world.rng)
        self._is_promoted = promoted
        self.is_unclean = not promoted and self.world.rng.random() < 0.7
        self.processes = [
            MirrorProcess(self.world, self.source) for _ in range(self.world.rng.choice(PROCESSES))
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: dict[int, tuple[Any, ...]] = {}

    async def _begin(self) -> None:
        await super()._begin()
        unclean = str(self.is_unclean).lower()
        settings = {
            "min.insync.replicas": "1" if self.is_unclean else "2",
            "unclean.leader.election.enable": unclean,
        }
        create = altered(
            MirrorAction.CREATE,
            source_topic_id=SOURCE_ID,
            num_partitions=1,
            replication_factor=REPLICAS,
            configs=[MirrorConfig(*each) for each in settings.items()],
        )
        while not await self.processes[0].alter(create):
            await self._watch.wait(0.1)
        jobs = [process.run() for process in self.processes] + [self._live(), self._look()]
        self._tasks = [asyncio.ensure_future(job) for job in jobs]
        self._promotion = asyncio.ensure_future(self._promote()) if self._is_promoted else None

    # -- source and operator --------------------------------------------------------------------------

    async def _live(self) -> None:
        rng, source = self.world.rng, self.source
        while not self.processes[0].is_to_stop:
            source.write()
            if rng.random() < 0.06:
                unclean = rng.random() < 0.6
                source.elect(unclean=unclean)
                self.world.note(f"the source has a new leader, epoch {source.epoch}, unclean: {unclean}")
            if rng.random() < 0.05:
                source.delete()
            await asyncio.sleep(rng.choice((0.01, 0.03, 0.1)))

    async def _promote(self) -> None:
        await asyncio.sleep(self.world.rng.uniform(0.5, 2.5))
        self.world.note("the mirror is to be promoted")
        while self._mirror().state == MirrorState.ACTIVE:
            await self.processes[0].alter(altered(MirrorAction.FAILOVER))
            await asyncio.sleep(0.2)

    # -- invariants ------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            for machine in self.world.machines:
                if machine.broker is not None and machine.serves:
                    partition = machine.broker.replicas.find(MIRRORED, 0)
                    if partition is not None:
                        self._check(machine.number, partition)
            await asyncio.sleep(POLL_SECONDS)

    def _check(self, number: int, partition: Partition) -> None:
        log = partition.log
        look = (log, log.generation, log.offsets.written, log.log_start_offset)
        if self._seen.get(number) == look:
            return
        self._seen[number] = look
        mirrored, own = self._parts(log)
        if not mirrored:
            return
        history = [each.name for each in self.source.history(mirrored[-1][1]) if each.base >= mirrored[0][0]]
        if history[: len(mirrored)] != mirrored:
            raise Violation(f"broker {number} has {mirrored}, which the source never had; it had {history}")
        if own and not self._is_promoted:
            raise Violation(f"broker {number} has batches that were not mirrored: {own}")

    def _parts(self, log: Log) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
        """(offset, epoch, CRC) of mirrored batches, and of batches written by the promotion."""
        since = self._mirror().partition(0).since_epoch
        found = contents(log, log.offsets.local_start)
        if since < 0:
            return found, []
        return [each for each in found if each[1] < since], [each for each in found if each[1] >= since]

    def _mirror(self) -> MirrorTopic:
        mirror = self.world.image().mirror_of(MIRRORED)
        assert mirror is not None
        return mirror

    # -- final comparison -------------------------------------------------------------------------------

    async def _finish(self) -> None:
        watch = self._watch
        await watch.until(self._is_whole, "all replicas of the mirror are in sync")
        if self._promotion is not None:
            await watch.until(self._promotion.done, "the promotion has begun")
            await watch.until(lambda: self._mirror().state == MirrorState.STOPPED, "it is promoted")
        self._tasks[len(self.processes)].cancel()  # stop changes at the source
        await watch.until(self._has_all, "the mirror has all that the source has")
        self._raise_what_failed()
        for process in self.processes:
            process.is_to_stop = True

    def _logs(self) -> list[Log]:
        brokers = [machine.broker for machine in self.world.machines if machine.broker is not None]
        found = [broker.replicas.find(MIRRORED, 0) for broker in brokers]
        return [partition.log for partition in found if partition is not None]

    def _is_whole(self) -> bool:
        self._raise_what_failed()
        state = self.world.image().topics[MIRRORED].partitions[0]
        return state.leader >= 0 and set(state.isr) == set(state.replicas)

    def _raise_what_failed(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _has_all(self) -> bool:
        self._raise_what_failed()
        logs = self._logs()
        since = max(log.log_start_offset for log in logs)
        if not self._is_whole() or len(logs) != REPLICAS:
            return False
        parts = [contents(log, since) for log in logs]
        if any(each != parts[0] for each in parts):
            return False
        if self._is_promoted:
            return self._is_ended(logs)
        return parts[0] == [each.name for each in self.source.batches if each.base >= since]

    def _is_ended(self, logs: list[Log]) -> bool:
        """True if all transactions have ended and the controller knows the end of the mirrored part."""
        part = self._mirror().partition(0)
        ends = {log.epochs.end_offset(part.since_epoch - 1, log.log_end_offset)[1] for log in logs}
        if not ends <= {part.promoted_at, -1}:
            raise Violation(f"promoted at {part.promoted_at}, and the mirrored parts end at {ends}")
        return all(not log.producers.unstable and log.high_watermark == log.log_end_offset for log in logs)

    async def _play(self) -> None:
        await super()._play()
        await self._finish()
