"""Seeded bugs: each breaks one rule of replication, and the simulator must detect it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from barnabas.cluster.image import PartitionState
from barnabas.cluster.membership import BrokerInfo
from barnabas.common.types import TopicPartition
from barnabas.log.dirs.slow_writes import PendingWrites
from barnabas.log.log import Log
from barnabas.log.pending import PendingAppends, WriteStep
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.protocol.messages.fetch import EpochEndOffset
from barnabas.replication.followed import Followed
from barnabas.replication.partition import Partition
from barnabas.transactions import markers


@contextmanager
def followers_are_cut_to_their_high_watermark() -> Iterator[None]:
    """Behaviour before KIP-101: a follower whose high watermark is stale truncates committed records. If it is elected
    before it has fetched them again, they are lost."""
    begin = Partition._begin_epoch

    def cut_first(self: Partition, state: PartitionState, leads: bool) -> None:
        if not leads:
            self.log.truncate_to(self.log.high_watermark)
        begin(self, state, leads)

    with patch.object(Partition, "_begin_epoch", cut_first):
        yield


@contextmanager
def divergence_goes_unnoticed() -> Iterator[None]:
    """A follower keeps records that its leader never had and appends newer ones after them."""

    def nothing(log: Log, last_epoch: int, offset: int) -> EpochEndOffset | None:
        return None

    with patch("barnabas.handlers.fetch.divergence.divergence", nothing):
        yield


@contextmanager
def a_proposed_member_does_not_count_yet() -> Iterator[None]:
    """A leader advances the high watermark without the replica it has proposed for the ISR. The controller may have
    accepted the proposal and may elect that replica next."""
    measure = Partition._recompute_flags

    def ignore_the_proposal(self: Partition) -> None:
        proposal, self.proposal = self.proposal, None
        measure(self)
        self.proposal = proposal

    with patch.object(Partition, "_recompute_flags", ignore_the_proposal):
        yield


@contextmanager
def too_few_in_sync_are_enough() -> Iterator[None]:
    """A leader commits with fewer in-sync replicas than min.insync.replicas. A replica that left the ISR earlier is
    still eligible and lacks those records."""
    measure = Partition._recompute_flags

    def be_content(self: Partition) -> None:
        measure(self)
        self.has_enough_in_sync = True
        self._commits_alone = self._maximal_isr == (self.broker_id,)

    with patch.object(Partition, "_recompute_flags", be_content):
        yield


@contextmanager
def every_stop_counts_as_clean() -> Iterator[None]:
    """A machine reports a clean shutdown after a power failure, stays in the ISR, and may be elected."""

    def clean(*arguments: Any, **named: Any) -> BrokerInfo:
        return BrokerInfo(*arguments, **{**named, "clean": True})

    with patch("barnabas.broker.lifecycle.BrokerInfo", clean):
        yield


@contextmanager
def open_transactions_can_be_read() -> Iterator[None]:
    """read_committed consumers get everything below the high watermark, including open transactions."""
    with patch.object(Log, "last_stable_offset", property(lambda self: self.high_watermark)):
        yield


@contextmanager
def followers_claim_what_waits_for_a_slow_disk() -> Iterator[None]:
    """A follower fetches past records that it has not written yet, and the leader counts them as replicated. If it dies
    then, it lacks them, is still in the ISR, and may be elected."""
    with patch.object(Followed, "is_written", True):
        yield


@contextmanager
def late_markers_end_the_next_transaction() -> Iterator[None]:
    """A duplicate marker for `__consumer_offsets` is written again. With transactions V2 it carries the epoch of the
    pending offsets of the next transaction, and commits or drops those."""
    is_repeated = markers._is_repeated

    def of_data_only(partition: Partition, marker: markers.Marker) -> bool:
        return partition.topic != CONSUMER_OFFSETS and is_repeated(partition, marker)

    with patch.object(markers, "_is_repeated", of_data_only):
        yield


@contextmanager
def a_slow_write_ends_after_its_callbacks() -> Iterator[None]:
    """A callback that appends has already started the next step: that step is lost, and its bytes stay pending."""

    def end_too_late(self: PendingAppends, step: WriteStep) -> None:
        log = self.log
        if step.roll is not None:
            step.roll.apply(log)
        if step.error is not None:
            log.failed(step.error)
            self.undo()
            return
        self._step = None
        for append in step.appends:
            append.apply(log)
        self.bytes -= step.size
        log.note_written(step.appends[-1].last_offset + 1, step.size)
        if not self._queue:
            log.end_pending()

    def count_too_late(self: PendingWrites, step: WriteStep) -> None:
        self.steps -= 1
        pending, before = step.pending, step.pending.bytes
        if not step.is_over:
            step.is_over = True
            pending.undo() if pending.log.is_abandoned else pending.end_step(step)
            self.bytes -= before - pending.bytes
        self._begin(pending)

    with (
        patch.object(PendingAppends, "end_step", end_too_late),
        patch.object(PendingWrites, "_end", count_too_late),
    ):
        yield


@contextmanager
def a_lost_folder_is_an_empty_log() -> Iterator[None]:
    """The checkpointed offsets are ignored: a broker leads an empty log, and its followers truncate theirs."""

    def nothing(*_: object) -> dict[TopicPartition, tuple[int, int]]:
        return {}

    with patch("barnabas.log.dirs.loading.noted_without_folder", nothing):
        yield


MUTANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    mutant.__name__: mutant
    for mutant in (
        followers_are_cut_to_their_high_watermark,
        divergence_goes_unnoticed,
        a_proposed_member_does_not_count_yet,
        too_few_in_sync_are_enough,
        every_stop_counts_as_clean,
        open_transactions_can_be_read,
        followers_claim_what_waits_for_a_slow_disk,
        late_markers_end_the_next_transaction,
        a_slow_write_ends_after_its_callbacks,
        a_lost_folder_is_an_empty_log,
    )
}
