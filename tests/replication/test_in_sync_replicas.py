"""The rules of the ISR: membership, commitment, removal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec
import pytest

from barnabas.common.clock import ManualClock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log.log import Log
from barnabas.metrics.topics import TopicCounters
from barnabas.replication.partition import ALL_REPLICAS, Partition
from barnabas.replication.progress import IsrProposal
from tests.replication.conftest import NOW, state
from tests.support.builders.logs import HeldThread

Batch = Callable[[], memoryview]


class Cluster:
    """Brokers as seen by the partition; a broker epoch is its id times ten."""

    is_fenced = False

    def __init__(self) -> None:
        self.now = 0.0
        self.down: set[int] = set()
        self.wanted: list[IsrProposal] = []
        self.expected: list[int] = []
        self.hosts: dict[int, str] = {}
        self.flushes: list[tuple[int, Callable[[ErrorCode], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def eligible_epoch(self, broker_id: int) -> int | None:
        return None if broker_id in self.down else broker_id * 10

    def on_one_host(self, brokers: Iterable[int]) -> bool:
        return len({self.hosts.get(broker_id, str(broker_id)) for broker_id in brokers}) == 1

    def isr_wanted(self, partition: Partition, proposal: IsrProposal) -> None:
        self.wanted.append(proposal)

    def followed_by(self, brokers: Iterable[int]) -> None:
        self.expected += brokers

    def appends_undone(self, partition: Partition) -> None:
        """No state of them remains in memory."""

    def when_flushed(self, log: Log, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        self.flushes.append((offset, callback))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def partition(log: Log, cluster: Cluster) -> Partition:
    return Partition("orders", 0, log.topic_id, log, 1, TopicCounters("orders"), cluster)


def committed(partition: Partition) -> int:
    return partition.log.high_watermark


def test_a_follower_that_has_caught_up_is_proposed_with_the_epoch_it_fetched_with(
    partition: Partition, cluster: Cluster, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    partition.follower_reached(2, 2, 20)
    partition.follower_reached(3, 1, 30)
    assert cluster.wanted == []
    partition.follower_reached(3, 2, 30)
    assert [proposal.members for proposal in cluster.wanted] == [((1, -1), (2, 20), (3, 30))]


@pytest.mark.parametrize(("epoch", "down"), [(29, set()), (30, {3})])
def test_a_follower_of_an_earlier_life_or_one_that_stops_is_not_proposed(
    partition: Partition, cluster: Cluster, epoch: int, down: set[int]
) -> None:
    cluster.down = down
    partition.apply(state(isr=(1, 2)))
    partition.follower_reached(3, 0, epoch)
    assert cluster.wanted == []


def test_a_follower_that_becomes_eligible_later_is_proposed_without_asking_again(
    partition: Partition, cluster: Cluster
) -> None:
    cluster.down = {3}
    partition.apply(state(isr=(1, 2)))
    partition.follower_reached(2, 0, 20)
    partition.follower_reached(3, 0, 30)
    cluster.down = set()
    partition.review_isr(30.0)
    assert [proposal.isr for proposal in cluster.wanted] == [(1, 2, 3)]


def test_replica_on_a_failed_disk_is_not_asked_for_its_records(
    partition: Partition, cluster: Cluster
) -> None:
    """Its broker is up, and the controller has taken it out of the ISR; nothing was written since."""
    partition.apply(state(isr=(1, 2)))
    partition.follower_reached(2, 0, 20)
    partition.apply(state(version=1, isr=(1,)))
    partition.review_isr(30.0)
    assert cluster.wanted == []
    partition.follower_reached(2, 0, 20)
    assert [proposal.isr for proposal in cluster.wanted] == [(1, 2)]


def test_proposed_member_delays_commits_immediately(
    partition: Partition, cluster: Cluster, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2)))
    partition.follower_reached(2, 0, 20)
    partition.follower_reached(3, 0, 30)
    assert len(cluster.wanted) == 1
    partition.append(batch(), NOW, ALL_REPLICAS)
    partition.follower_reached(2, 2, 20)
    assert committed(partition) == 0
    partition.follower_reached(3, 2, 30)
    assert committed(partition) == 2


def test_all_have_a_log_only_when_those_in_the_elr_have_fetched_it_in_this_epoch(
    partition: Partition, batch: Batch
) -> None:
    """Records beyond our log would reappear if it were elected."""
    partition.apply(state(isr=(1, 2)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    partition.follower_reached(2, 2, 20)
    partition.apply(msgspec.structs.replace(state(epoch=1, version=1), elr=(2,)))
    assert not partition.all_have(2)
    partition.follower_reached(2, 2, 20)
    assert partition.all_have(2)


def test_a_leader_whose_files_are_being_replaced_has_no_end_yet(partition: Partition) -> None:
    """A kill would leave its log at another end: a mirror was promoted at 15, and began at 0 after a restart."""
    thread = HeldThread()
    partition.log.disk.use_thread_when_slow(1, lambda: thread, ManualClock(NOW).monotonic)
    partition.log.truncate_fully_and_start_at(15, in_background=True)
    partition.apply(state(isr=(1, 2)))
    partition.follower_reached(2, 15, 20)
    assert not partition.all_have(15)
    thread.release()
    assert partition.all_have(15)


def test_a_member_counts_until_its_removal_is_stored(
    partition: Partition, cluster: Cluster, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2, 3)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    partition.follower_reached(2, 2, 20)
    cluster.now = 31.0
    partition.review_isr(30.0)
    assert [proposal.isr for proposal in cluster.wanted] == [(1, 2)]
    partition.follower_reached(2, 2, 20)
    assert committed(partition) == 0
    partition.apply(state(isr=(1, 2), version=1))
    assert committed(partition) == 2


def test_follower_at_the_log_end_stays_in_sync_between_fetches(
    partition: Partition, cluster: Cluster, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2, 3)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    for replica in (2, 3):
        partition.follower_reached(replica, 2, replica * 10)
    cluster.now = 1000.0
    partition.review_isr(30.0)
    partition.append(batch(), NOW, ALL_REPLICAS)
    cluster.now = 1029.0
    partition.review_isr(30.0)
    assert cluster.wanted == []


def test_follower_that_lags_in_two_reviews_is_removed_from_the_isr(
    partition: Partition, cluster: Cluster, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2, 3)))
    for _ in range(5):
        partition.append(batch(), NOW, ALL_REPLICAS)
    partition.follower_reached(2, 9, 20)
    partition.follower_reached(3, 4, 30)
    partition.review_isr(30.0, max_lag_records=5)
    assert cluster.wanted == []
    partition.review_isr(30.0, max_lag_records=5)
    assert [proposal.isr for proposal in cluster.wanted] == [(1, 2)]


def test_burst_that_a_follower_catches_up_with_does_not_shrink_the_isr(
    partition: Partition, cluster: Cluster, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2)))
    for _ in range(5):
        partition.append(batch(), NOW, ALL_REPLICAS)
        partition.review_isr(30.0, max_lag_records=1)
        partition.follower_reached(2, partition.log.log_end_offset, 20)
        partition.review_isr(30.0, max_lag_records=1)
    assert cluster.wanted == []


@pytest.mark.parametrize("isr", [(1,), (1, 2)])
def test_where_only_flushed_records_are_visible_the_high_watermark_waits_for_the_disk(
    partition: Partition, cluster: Cluster, batch: Batch, isr: tuple[int, ...]
) -> None:
    partition.update_config(replace(partition.log.config, barnabas_visible="flushed", min_insync_replicas=1))
    partition.apply(state(isr=isr))
    partition.append(batch(), NOW, 1)
    partition.follower_reached(2, 2, 20)
    assert committed(partition) == 0
    partition.append(batch(), NOW, 1)
    ((offset, flushed),) = cluster.flushes  # the second batch joins the next flush
    job = partition.log.prepare_flush()
    assert offset == 2
    partition.append(batch(), NOW, 1)
    partition.follower_reached(2, 6, 20)
    job.run()
    partition.log.complete_flush(job)
    flushed(ErrorCode.NONE)
    assert committed(partition) == 4
    assert cluster.flushes[-1][0] == 6


def test_an_answer_that_never_came_leaves_the_proposal_pending(
    partition: Partition, cluster: Cluster, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2)))
    partition.follower_reached(2, 0, 20)
    partition.follower_reached(3, 0, 30)
    partition.append(batch(), NOW, ALL_REPLICAS)
    partition.follower_reached(2, 2, 20)
    assert committed(partition) == 0  # it may have been granted
    partition.refused(cluster.wanted[0])
    assert committed(partition) == 2


def test_nothing_is_committed_while_fewer_are_in_sync_than_needed(partition: Partition, batch: Batch) -> None:
    partition.apply(state(isr=(1,)))
    partition.append(batch(), NOW, 1)
    assert committed(partition) == 0
    partition.apply(state(isr=(1, 2), version=1))
    partition.follower_reached(2, 2, 20)
    assert committed(partition) == 2


def test_producer_gets_an_immediate_error_with_too_few_in_sync_replicas(
    partition: Partition, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    answers: list[ErrorCode] = []
    partition.when_committed(2, answers.append)
    partition.apply(state(isr=(1,), version=1))
    assert answers == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_a_fenced_broker_accepts_nothing_and_still_answers_readers(
    partition: Partition, cluster: Cluster, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2)))
    cluster.is_fenced = True
    partition.fence()
    with pytest.raises(KafkaError) as error:
        partition.append(batch(), NOW, 1)
    assert error.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.leadership_error(-1) == ErrorCode.NONE


def test_a_new_leader_does_not_know_its_end_before_its_followers_have_come(
    partition: Partition, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    partition.apply(state(isr=(1, 2), epoch=1, version=1))
    assert not partition.end_is_known
    partition.follower_reached(2, 2, 20)
    assert partition.end_is_known


def test_waiters_keep_waiting_when_the_leader_stays_with_a_new_epoch(
    partition: Partition, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    answers: list[ErrorCode] = []
    partition.when_committed(2, answers.append)
    partition.apply(state(isr=(1, 2), epoch=1, version=1))
    assert answers == []
    partition.follower_reached(2, 2, 20)
    assert answers == [ErrorCode.NONE]


def test_an_epoch_without_a_batch_is_forgotten_by_a_follower(partition: Partition, batch: Batch) -> None:
    partition.apply(state(isr=(1, 2)))
    partition.append(batch(), NOW, 1)
    partition.apply(state(isr=(1, 2), epoch=1, version=1))
    assert partition.log.epochs.latest == 1
    partition.apply(state(isr=(1, 2), leader=2, epoch=2, version=2))
    assert partition.log.epochs.latest == 0


def test_a_follower_that_comes_back_on_the_leaders_machine_is_not_taken_for_another_one(
    partition: Partition, cluster: Cluster
) -> None:
    partition.apply(state(isr=(1, 2)))
    assert not partition.is_single_host
    cluster.hosts = {1: "here", 2: "here"}
    partition.broker_changed(3)
    assert not partition.is_single_host
    partition.broker_changed(2)
    assert partition.is_single_host
