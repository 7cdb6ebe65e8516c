"""What a log is made of."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.log.epochs import LeaderEpochs
from barnabas.log.flushing import Unsynced
from barnabas.log.offsets import NOTHING_TIERED, Offsets
from barnabas.log.producers import ProducerStates
from barnabas.log.recovery.snapshots import SnapshotFiles
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.checkpoint import TieredPart


class LogParts(NamedTuple):
    """What a log consists of when it starts to work: fresh, or as recovery found it."""

    segments: list[Segment]
    log_start: int
    log_end: int
    recovery_point: int
    producers: ProducerStates
    epochs: LeaderEpochs
    snapshots: SnapshotFiles
    unsynced: Unsynced
    tiered: TieredPart | None = None

    def offsets(self) -> Offsets:
        local_start = max(self.log_start, self.segments[0].base_offset)
        tiered_end = NOTHING_TIERED if self.tiered is None else self.tiered.end
        return Offsets(self.log_start, self.log_end, self.recovery_point, local_start, tiered_end)
