"""Seeded mirror bugs that the simulator must detect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from barnabas.cluster.mirrors import MirrorTopic
from barnabas.log.durable_log import DurableLog
from barnabas.log.producers import ProducerStates
from barnabas.protocol.messages.mirror import MirroredPartition
from barnabas.replication.followed import FetchPosition, Followed
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
    with patch.object(MirrorTopic, "append_refusal", lambda self, name, index: None):
        yield


@contextmanager
def a_promotion_does_not_wait_for_the_elr() -> Iterator[None]:
    """A replica in the ELR may have mirrored batches that the promoted leader lacks."""

    def all_have(self: Partition, end: int) -> bool:
        members = self._maximal_isr
        written = self.log.offsets.written
        return self.log.is_settled and self._followers.least_end(members, self.broker_id, written) >= end

    with patch.object(Partition, "all_have", all_have):
        yield


@contextmanager
def a_promotion_does_not_wait_for_the_disk() -> Iterator[None]:
    """A leader that is killed while its files are replaced has another end than the promotion has settled."""
    all_have = Partition.all_have

    def at_once(self: Partition, end: int) -> bool:
        with patch.object(DurableLog, "is_settled", True):
            return all_have(self, end)

    with patch.object(Partition, "all_have", at_once):
        yield


@contextmanager
def a_question_for_the_log_start_is_progress() -> Iterator[None]:
    """A former leader counts as in sync at the offset from which it asks, which is below its empty log."""
    position = Followed.position

    def claimed(self: Followed) -> FetchPosition:
        one = position(self)
        return one._replace(log_start=min(one.log_start, one.offset))

    with patch.object(Followed, "position", claimed):
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
    "a_promotion_does_not_wait_for_the_disk": a_promotion_does_not_wait_for_the_disk,
    "a_question_for_the_log_start_is_progress": a_question_for_the_log_start_is_progress,
}
