"""What must be true after every step, whatever has happened."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.log.log import Log
from barnabas.records.batch import iterate_headers
from barnabas.replication.partition import Partition
from barnabas.testing.simulation.brokers import Machine
from barnabas.testing.simulation.clients import TOPIC, Violation, Writer


class Invariants:
    def __init__(self, machines: list[Machine], writers: list[Writer]) -> None:
        self._machines = machines
        self._writers = writers
        self._leaders: dict[tuple[int, int], int] = {}

    def check(self, image: MetadataImage) -> None:
        for writer in self._writers:
            state = image.partition(TOPIC, writer.index)
            if state is not None:
                self._one_leader_per_epoch(writer.index)
                self._acknowledged_is_held(writer, state)
                self._equal_below_high_watermark(writer.index)

    def _replicas(self, index: int) -> Iterable[tuple[int, Partition]]:
        for machine in self._machines:
            if machine.broker is not None and machine.serves:
                partition = machine.broker.replicas.find(TOPIC, index)
                if partition is not None:
                    yield machine.number, partition

    def _one_leader_per_epoch(self, index: int) -> None:
        for number, partition in self._replicas(index):
            if partition.is_leader:
                known = self._leaders.setdefault((index, partition.leader_epoch), number)
                if known != number:
                    raise Violation(
                        f"brokers {known} and {number} both lead partition {index} in epoch {partition.leader_epoch}"
                    )

    def _acknowledged_is_held(self, writer: Writer, state: PartitionState) -> None:
        """Whoever may be elected has every record that was acknowledged."""
        if not writer.acknowledged:
            return
        last = max(writer.acknowledged)
        electable = state.isr or state.elr
        for number, partition in self._replicas(writer.index):
            if number in electable and partition.log.log_end_offset <= last:
                raise Violation(
                    f"broker {number} may lead partition {writer.index} and ends at "
                    f"{partition.log.log_end_offset}; offset {last} is acknowledged"
                )

    def _equal_below_high_watermark(self, index: int) -> None:
        logs = [(number, partition.log) for number, partition in self._replicas(index)]
        for position, (number, log) in enumerate(logs):
            for other, other_log in logs[position + 1 :]:
                upto = min(log.high_watermark, other_log.high_watermark)
                if not _agree(log, other_log, upto):
                    raise Violation(
                        f"brokers {number} and {other} differ in partition {index} below offset {upto}"
                    )


def _agree(log: Log, other: Log, upto: int) -> bool:
    """Compared by the epochs of the offsets: the same epoch at the same offset was written by the same leader."""
    return _epochs_below(log, upto) == _epochs_below(other, upto)


def _epochs_below(log: Log, upto: int) -> list[tuple[int, int]]:
    return [(epoch, start) for epoch, start in log.epochs.entries if start < upto]


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
    return _epochs_below(log, log.log_end_offset), producers
