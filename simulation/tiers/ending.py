"""End of a tiered scenario: heal the store, wait until all segments are copied and swept, then compare both tiers with
the responses clients received."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.broker.tiering.tiering import LedPartition, Tiering
from barnabas.log.log import Log
from barnabas.replication.partition import Partition
from barnabas.tiering.objects.layout import PartitionFolder, parse_object_name
from barnabas.tiering.objects.manifest import Manifest, decode
from barnabas.tiering.repair import verify
from barnabas.tiering.writing.copier import SegmentCopier
from barnabas.tiering.writing.expiration import delete_all, find_orphans
from barnabas.tiering.writing.remote_writer import WriterState
from simulation.clients import TOPIC, Violation
from simulation.tiers.coverage import listed, unlisted
from simulation.watch import Watch
from simulation.workload import PARTITIONS, Workload
from simulation.world import World


class TierEnding:
    def __init__(self, world: World, workload: Workload, watch: Watch) -> None:
        assert world.tiers is not None
        self._world = world
        self._workload = workload
        self._watch = watch
        self._bucket = world.tiers.bucket
        self._traps = world.tiers.traps

    def mend(self) -> None:
        self._traps.clear()
        self._bucket.heal()

    async def settle(self) -> None:
        """Wait until every leader has copied and deleted all eligible segments."""
        await self._watch.until(self._is_settled, "all is copied, and nothing is left to be deleted")

    def _is_settled(self) -> bool:
        led = list(self.led())
        indexes = sorted(partition.index for partition, _ in led)
        return indexes == list(range(PARTITIONS)) and all(
            _is_idle(partition.log, each) for partition, each in led
        )

    def led(self) -> Iterator[tuple[Partition, LedPartition]]:
        """Partitions on their actual leaders, ignoring stale ones."""
        states = self._world.image().topics[TOPIC].partitions
        for machine in self._world.machines:
            broker = machine.broker
            tiering = broker.tiering if broker is not None else None
            if broker is not None and isinstance(tiering, Tiering):
                for tp, led in tiering.led.items():
                    partition = broker.replicas.find(*tp)
                    if tp.topic != TOPIC or partition is None or not partition.is_leader:
                        continue
                    if states[tp.partition].leader == machine.number:
                        yield partition, led

    async def compare(self) -> None:
        """Run the daily sweep, then raise Violation if an object is damaged or orphaned."""
        for index in range(PARTITIONS):
            await self.settle()  # leadership may still return to the preferred replica
            partition, led = next(each for each in self.led() if each[0].index == index)
            file = led.writer._file
            assert file is not None
            orphans = [info.key async for info in find_orphans(self._bucket.objects, file, 0)]
            await delete_all(self._bucket.objects, orphans)
            manifest = decode(self._bucket.objects.contents(file.folder.manifest), file.folder)
            if manifest.leader_epoch != partition.leader_epoch:
                raise Violation(
                    f"the leader of epoch {partition.leader_epoch} has not claimed {file.folder.manifest}"
                )
            await self._check_objects(file.folder, manifest, _in_progress(led))
            self._check_start(partition, manifest)

    async def _check_objects(self, folder: PartitionFolder, manifest: Manifest, in_progress: str) -> None:
        async for finding in verify(self._bucket.objects, folder, manifest):
            if finding.problem is not None:
                raise Violation(finding.problem)
        left = [
            name
            for name in unlisted(self._bucket, folder, manifest)
            if name != in_progress and not self._is_swept_later(folder, manifest, name)
        ]
        if left:
            raise Violation(f"no manifest lists {left} of {folder.prefix}, and no sweep removes them")
        ends = [entry.end for entry in listed(self._bucket, folder, manifest)]
        if ends and ends[-1] != manifest.tiered_end:
            raise Violation(f"the segments of {folder.prefix} end at {ends[-1]}, not {manifest.tiered_end}")

    def _is_swept_later(self, folder: PartitionFolder, manifest: Manifest, name: str) -> bool:
        """True for an upload that arrived after its leader had timed out and deleted it. The daily sweep of a leader of
        another epoch deletes it."""
        parsed = parse_object_name(name)
        is_of_epoch = parsed is not None and parsed.leader_epoch == manifest.leader_epoch
        return is_of_epoch and self._bucket.has_arrived_late(folder.key(name))

    def _check_start(self, partition: Partition, manifest: Manifest) -> None:
        """Check that only DeleteRecords and retention removed records, and that both tiers agree on the log start."""
        start, index = partition.log.log_start_offset, partition.index
        if start < manifest.log_start:
            raise Violation(
                f"partition {index} starts at {start}, and its remote part at {manifest.log_start}"
            )
        allowed = self._workload.may_start_at(index)
        if allowed is not None and start > allowed:
            raise Violation(f"partition {index} starts at {start}; it was to lose what is below {allowed}")


def _is_idle(log: Log, led: LedPartition) -> bool:
    writer, manifest = led.writer, led.writer.manifest
    is_waiting = writer.state is WriterState.WAITING and writer.error is None
    if not is_waiting or manifest is None or manifest.garbage or not _is_copied(log, manifest):
        return False
    return log.log_start_offset >= manifest.log_start  # a new leader adopts it in its next round


def _in_progress(led: LedPartition) -> str:
    """Name of the segment that a leader is copying."""
    copier = led.writer._copier
    planned = copier._planned if isinstance(copier, SegmentCopier) else None
    return "" if planned is None else planned.name


def _is_copied(log: Log, manifest: Manifest) -> bool:
    """True if all segments but the active one are copied."""
    return log.active.base_offset <= max(manifest.tiered_end, log.log_start_offset)
