"""Seeded mirror bugs that the simulator must detect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from barnabas.cluster.mirrors import MirrorTopic
from barnabas.log.producers import ProducerStates
from barnabas.protocol.messages.mirror import MirroredPartition
from barnabas.replication.partition import Partition


@contextmanager
def leaders_start_epochs_of_their_own() -> Iterator[None]:
    """Leaders start a new epoch, as for ordinary topics: batches of the source then have an older epoch."""
    with patch.object(Partition, "_start_epoch", lambda self, epoch: self.log.start_epoch(epoch)):
        yield


@contextmanager
def logs_are_cut_where_the_source_says() -> Iterator[None]:
    """Truncate at the source's end offset, not at the local end of the epoch: batches the source never had remain."""

    def cut_at(partition: Partition, data: MirroredPartition) -> int:
        return data.truncate_to

    with patch("barnabas.handlers.mirror.appends._cut_at", cut_at):
        yield


@contextmanager
def a_promotion_does_not_end_the_mirror() -> Iterator[None]:
    """Batches of the source are appended after the markers of the promotion."""
    with patch.object(MirrorTopic, "why_not_mirrored", lambda self, name, index: None):
        yield


@contextmanager
def a_promotion_does_not_wait_for_the_elr() -> Iterator[None]:
    """A replica in the ELR may have mirrored batches that the promoted leader lacks."""

    def all_have(self: Partition, end: int) -> bool:
        return self._followers.least_end(self._maximal_isr, self.broker_id, self.log.offsets.written) >= end

    with patch.object(Partition, "all_have", all_have):
        yield


@contextmanager
def deleted_transactions_are_unstable() -> Iterator[None]:
    """A leader that was reset has no producers; its followers keep a transaction that the promotion does not end.
    1 of 130 seeds detects it, so a test pins that seed."""
    with patch.object(ProducerStates, "log_start_moved", lambda self, log_start: None):
        yield


Mutant = Callable[[], AbstractContextManager[None]]
MUTANTS: dict[str, Mutant] = {
    "leaders_start_epochs_of_their_own": leaders_start_epochs_of_their_own,
    "logs_are_cut_where_the_source_says": logs_are_cut_where_the_source_says,
}
MUTANTS_OF_PROMOTION: dict[str, Mutant] = {
    "a_promotion_does_not_end_the_mirror": a_promotion_does_not_end_the_mirror,
    "a_promotion_does_not_wait_for_the_elr": a_promotion_does_not_wait_for_the_elr,
}
