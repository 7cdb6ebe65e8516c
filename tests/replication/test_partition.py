from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.replication.partition import ALL_REPLICAS, Partition
from tests.replication.conftest import NOW, state


class Watching:
    def __init__(self) -> None:
        self.told: list[int] = []

    def partition_changed(self, new_bytes: int) -> None:
        self.told.append(new_bytes)


Batch = Callable[[], memoryview]


def test_a_partition_that_is_not_led_here_refuses_to_append(partition: Partition, batch: Batch) -> None:
    partition.apply(state(leader=2, isr=(2,)))
    with pytest.raises(KafkaError) as error:
        partition.append(batch(), NOW, 1)
    assert error.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_high_watermark_follows_the_append_while_the_leader_is_alone(
    partition: Partition, batch: Batch
) -> None:
    partition.apply(state(replicas=(1,)))
    partition.append(batch(), NOW, 1)
    assert partition.log.high_watermark == 2


def test_the_high_watermark_waits_for_the_slowest_member_of_the_isr(
    partition: Partition, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2, 3)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    assert partition.log.high_watermark == 0
    partition.follower_reached(2, 2, 7)
    assert partition.log.high_watermark == 0
    partition.follower_reached(3, 1, 7)
    assert partition.log.high_watermark == 1
    partition.follower_reached(3, 2, 7)
    assert partition.log.high_watermark == 2


def test_waiting_producer_is_notified_when_its_record_is_committed(
    partition: Partition, batch: Batch
) -> None:
    partition.apply(state(isr=(1, 2)))
    result = partition.append(batch(), NOW, ALL_REPLICAS)
    answers: list[ErrorCode] = []
    partition.when_committed(result.last_offset + 1, answers.append)
    assert answers == []
    partition.follower_reached(2, result.last_offset + 1, 7)
    assert answers == [ErrorCode.NONE]


def test_waiters_are_notified_of_a_leader_change(partition: Partition, batch: Batch) -> None:
    partition.apply(state(isr=(1, 2)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    answers: list[ErrorCode] = []
    partition.when_committed(2, answers.append)
    partition.apply(state(leader=2, epoch=1, version=1, isr=(2,)))
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_too_few_replicas_in_sync_refuse_acks_all_but_not_acks_1(partition: Partition, batch: Batch) -> None:
    partition.apply(state(isr=(1,)))
    with pytest.raises(KafkaError) as error:
        partition.append(batch(), NOW, ALL_REPLICAS)
    assert error.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    assert partition.append(batch(), NOW, 1).first_offset == 0


def test_a_topic_cannot_need_more_replicas_in_sync_than_it_has(partition: Partition, batch: Batch) -> None:
    partition.apply(state(replicas=(1,)))
    assert partition.append(batch(), NOW, ALL_REPLICAS).first_offset == 0


@pytest.mark.parametrize("older", [state(leader=2, epoch=4, version=9), state(leader=2, epoch=5, version=2)])
def test_outdated_notifications_are_ignored(partition: Partition, older: object) -> None:
    partition.apply(state(epoch=5, version=3))
    partition.apply(older)  # type: ignore[arg-type]
    assert partition.is_leader
    assert partition.leader_epoch == 5


def test_client_with_another_leader_epoch_learns_which_side_is_behind(partition: Partition) -> None:
    partition.apply(state(epoch=5))
    assert partition.leadership_error(-1) == ErrorCode.NONE
    assert partition.leadership_error(5) == ErrorCode.NONE
    assert partition.leadership_error(4) == ErrorCode.FENCED_LEADER_EPOCH
    assert partition.leadership_error(6) == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_watcher_is_notified_once_and_must_register_again(partition: Partition, batch: Batch) -> None:
    partition.apply(state(replicas=(1,)))
    watching = Watching()
    partition.watch(watching)
    size = len(batch())
    partition.append(batch(), NOW, 1)
    partition.append(batch(), NOW, 1)
    assert watching.told == [size]
    partition.watch(watching)
    partition.append(batch(), NOW, 1)
    assert watching.told == [size, size]


def test_nothing_is_counted_twice_for_a_batch_that_was_sent_twice(partition: Partition) -> None:
    from barnabas.records.builder import build_batch
    from barnabas.records.record import Record

    partition.apply(state())
    sent = build_batch([Record(0, NOW, None, b"v")], producer_id=7, producer_epoch=0, base_sequence=0)
    first = partition.append(memoryview(bytearray(sent)), NOW, 1)
    again = partition.append(memoryview(bytearray(sent)), NOW, 1)
    assert (again.first_offset, again.duplicate) == (first.first_offset, True)
    assert partition.counters.messages_in.value == 1


def test_retired_partition_wakes_all_waiters(partition: Partition, batch: Batch) -> None:
    partition.apply(state(isr=(1, 2)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    answers: list[ErrorCode] = []
    watching = Watching()
    partition.when_committed(2, answers.append)
    partition.watch(watching)
    partition.retire()
    assert answers == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert watching.told == [0]
