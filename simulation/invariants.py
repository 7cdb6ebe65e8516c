"""Invariants that must hold after every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import Any, TypeAlias

from barnabas.cluster.image import MetadataImage, PartitionState, TopicState
from barnabas.log.dirs.slow_writes import PendingWrites
from barnabas.log.log import Log
from barnabas.records.batch import iterate_headers
from barnabas.replication.partition import Partition
from simulation.brokers import Machine
from simulation.clients import TOPIC, Acknowledging, Violation

Replicas: TypeAlias = list[tuple[int, Partition]]
"""(broker id, replica) pairs of one partition, for brokers that are serving."""
Look: TypeAlias = list[Any]
"""Flat snapshot of all inputs of the checks: topic state, acknowledged offsets, and the relevant fields of each
replica. Equal snapshots give equal results."""


class Invariants:
    """Checks run after every step; an unchanged snapshot skips them. `thorough` disables the skip; `starts_move`
    allows log start offsets to advance."""

    def __init__(
        self,
        machines: list[Machine],
        writers: Sequence[Acknowledging],
        *,
        thorough: bool = False,
        starts_move: bool = False,
    ) -> None:
        self._machines = machines
        self._starts_move = starts_move
        self._writers = writers
        self._thorough = thorough
        self._leaders: dict[tuple[int, int], int] = {}
        self._last_look: Look = []

    def check(self, image: MetadataImage, *, thorough: bool = False) -> None:
        topic = image.topics.get(TOPIC)
        if topic is None:
            return
        look: Look = [topic, *[writer.last_acknowledged for writer in self._writers]]
        for machine in self._machines:
            broker = machine.broker
            if broker is not None and machine.serves:
                for partition in broker.replicas.by_name.get(TOPIC, {}).values():
                    log = partition.log
                    look += (
                        *(machine.number, partition.index, partition.is_leader, partition.leader_epoch),
                        *(log.log_end_offset, log.high_watermark, log.epochs.entries),
                    )
        if thorough or self._thorough or look != self._last_look:
            self._last_look = look
            self._check_all(topic)

    def _check_all(self, topic: TopicState) -> None:
        found = self._replicas()
        for writer in self._writers:
            replicas = found.get(writer.index, [])
            self._one_leader_per_epoch(writer.index, replicas)
            self._acknowledged_is_held(writer, topic.partitions[writer.index], replicas)
            self._equal_below_high_watermark(writer.index, replicas)

    def _replicas(self) -> dict[int, Replicas]:
        found: dict[int, Replicas] = {}
        for machine in self._machines:
            if machine.broker is not None and machine.serves:
                for index, partition in machine.broker.replicas.by_name.get(TOPIC, {}).items():
                    found.setdefault(index, []).append((machine.number, partition))
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
        """Every electable replica (ISR or ELR) has all acknowledged records."""
        last = writer.last_acknowledged
        electable = (*state.isr, *state.elr)
        for number, partition in replicas:
            if partition.log.log_end_offset <= last and number in electable:
                raise Violation(
                    f"broker {number} may lead partition {writer.index} and ends at "
                    f"{partition.log.log_end_offset}; offset {last} is acknowledged"
                )

    def _equal_below_high_watermark(self, index: int, replicas: Replicas) -> None:
        """Compare leader epochs by offset: equal epochs at the same offset were written by the same leader."""
        marks = sorted(
            ((partition.log.high_watermark, number, partition.log) for number, partition in replicas),
            key=lambda mark: mark[:2],
        )
        # Comparing neighbours suffices, since equality is transitive.
        for (below, number, log), (_, other, other_log) in pairwise(marks):
            if not _are_equal(log, other_log, below, self._starts_move):
                raise Violation(
                    f"brokers {number} and {other} differ in partition {index} below offset {below}"
                )


def _are_equal(log: Log, other: Log, below: int, starts_move: bool) -> bool:
    """Compare by leader epochs, and by batches where the epochs are unknown.

    As with Kafka, the epochs of a log may begin above its log start offset: the epoch checkpoint is truncated before
    the log start offset is checkpointed, a power failure may lose the latter, and the manifest may lag behind both.
    """
    start = since = max(log.log_start_offset, other.log_start_offset)
    if starts_move:
        since = max([since, *(each.epochs.entries[0][1] for each in (log, other) if each.epochs.entries)])
    if _between(log.epochs.entries, since, below) != _between(other.epochs.entries, since, below):
        return False
    start = max(start, log.offsets.local_start, other.offsets.local_start)
    upto = min(since, below)
    return start >= upto or contents(log, start, upto) == contents(other, start, upto)


def check_slow_disks(machine: Machine) -> None:
    """Check that an idle slow disk has no pending bytes; otherwise it has lost track of a write."""
    for log_dir in machine.broker.logs.dirs if machine.broker is not None else ():
        writes = log_dir.disk.writes
        if isinstance(writes, PendingWrites) and writes.bytes and not writes.steps:
            raise Violation(
                f"{log_dir.folder} of broker {machine.number} counts {writes.bytes} bytes as pending"
            )


def _between(entries: Iterable[tuple[int, int]], since: int, upto: int) -> list[tuple[int, int]]:
    """(epoch, start offset) pairs of the records in [since, upto)."""
    found: list[tuple[int, int]] = []
    for epoch, start in entries:
        if start <= since:
            found = [(epoch, since)]
        elif start < upto:
            found.append((epoch, start))
    return found if since < upto else []


def check_epochs(log: Log) -> None:
    """Raise Violation if the epoch checkpoint disagrees with the batches on disk."""
    entries = log.epochs.entries
    since = max(log.offsets.local_start, entries[0][1] if entries else 0)
    for offset, epoch, _ in contents(log, since):
        if log.epochs.at(offset) != epoch:
            raise Violation(
                f"{log.folder} has a batch of epoch {epoch} at offset {offset}, and its epochs are {entries}"
            )


def contents(log: Log, since: int = 0, upto: float = inf) -> list[tuple[int, int, int]]:
    """(base offset, epoch, CRC) of every batch on disk with a base offset in [since, upto)."""
    found = []
    for segment in log.segments:
        data = segment.file.read(segment.size, 0) if segment.size else b""
        for _, header in iterate_headers(data):
            if since <= header.base_offset < upto:
                found.append((header.base_offset, header.leader_epoch, header.crc))
    return found


def memory(log: Log, start: int) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
    """State that a replica derived from its batches at or above `start`: epochs and producers. A replica that was
    reset has no state for producers whose records have all expired."""
    producers = sorted(
        (one.producer_id, one.epoch, one.last_sequence)
        for one in log.producers
        if not start or max(one.last_offset, one.marker_offset) >= start
    )
    return _between(log.epochs.entries, start, log.log_end_offset), producers
