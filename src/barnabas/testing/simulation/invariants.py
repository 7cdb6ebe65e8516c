"""What must be true after every step, whatever has happened."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.log.log import Log
from barnabas.records.batch import iterate_headers
from barnabas.replication.partition import Partition
from barnabas.testing.simulation.brokers import Machine
from barnabas.testing.simulation.clients import TOPIC, Acknowledging, Violation

Replicas: TypeAlias = list[tuple[int, Partition]]
"""(broker, its replica) of one partition, of brokers that serve."""


class Invariants:
    """Looked at after every step, so a look must cost next to nothing when nothing has changed."""

    def __init__(self, machines: list[Machine], writers: Sequence[Acknowledging]) -> None:
        self._machines = machines
        self._writers = writers
        self._leaders: dict[tuple[int, int], int] = {}
        self._looked_at: dict[int, list[tuple[Log, int, int, list[tuple[int, int]]]]] = {}

    def check(self, image: MetadataImage) -> None:
        for writer in self._writers:
            state = image.partition(TOPIC, writer.index)
            if state is not None:
                replicas = self._replicas(writer.index)
                self._one_leader_per_epoch(writer.index, replicas)
                self._acknowledged_is_held(writer, state, replicas)
                self._equal_below_high_watermark(writer.index, replicas)

    def _replicas(self, index: int) -> Replicas:
        found = []
        for machine in self._machines:
            if machine.broker is not None and machine.serves:
                partition = machine.broker.replicas.find(TOPIC, index)
                if partition is not None:
                    found.append((machine.number, partition))
        return found

    def _one_leader_per_epoch(self, index: int, replicas: Replicas) -> None:
        for number, partition in replicas:
            if partition.is_leader:
                known = self._leaders.setdefault((index, partition.leader_epoch), number)
                if known != number:
                    raise Violation(
                        f"brokers {known} and {number} both lead partition {index} in epoch {partition.leader_epoch}"
                    )

    def _acknowledged_is_held(self, writer: Acknowledging, state: PartitionState, replicas: Replicas) -> None:
        """Whoever may be elected has every record that was acknowledged."""
        last = writer.last_acknowledged
        electable = state.isr or state.elr
        for number, partition in replicas:
            if partition.log.log_end_offset <= last and number in electable:
                raise Violation(
                    f"broker {number} may lead partition {writer.index} and ends at "
                    f"{partition.log.log_end_offset}; offset {last} is acknowledged"
                )

    def _equal_below_high_watermark(self, index: int, replicas: Replicas) -> None:
        """Compared by the epochs of the offsets: the same epoch at the same offset was written by the same leader."""
        looks = [
            (
                partition.log,
                partition.log.high_watermark,
                partition.log.generation,
                partition.log.epochs.entries,
            )
            for _, partition in replicas
        ]
        if looks == self._looked_at.get(index):
            return
        self._looked_at[index] = looks
        upto = sorted((high_watermark, place) for place, (_, high_watermark, _, _) in enumerate(looks))
        # Each is compared with the next higher one: what two agree on, all agree on.
        for (below, place), (_, other) in pairwise(upto):
            if _below(looks[place][3], below) != _below(looks[other][3], below):
                raise Violation(
                    f"brokers {replicas[place][0]} and {replicas[other][0]} differ in partition {index} "
                    f"below offset {below}"
                )


def _below(entries: list[tuple[int, int]], upto: int) -> list[tuple[int, int]]:
    return [entry for entry in entries if entry[1] < upto]


def contents(log: Log) -> list[tuple[int, int, int]]:
    """(offset, epoch, checksum) of every batch."""
    found = []
    for segment in log.segments:
        for _, header in iterate_headers(segment.file.read(segment.size, 0)):
            found.append((header.base_offset, header.leader_epoch, header.crc))
    return found


def memory(log: Log) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
    """What a replica has made of its batches, as leader, as follower or by recovery: epochs and producers."""
    producers = sorted((one.producer_id, one.epoch, one.last_sequence) for one in log.producers)
    return _below(log.epochs.entries, log.log_end_offset), producers
