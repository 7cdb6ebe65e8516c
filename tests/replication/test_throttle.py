from __future__ import annotations

from dataclasses import replace

import msgspec

from barnabas.common.clock import ManualClock
from barnabas.replication.partition import Partition
from barnabas.replication.throttle import FollowerThrottles, ReplicationQuota, is_throttled
from tests.replication.conftest import state


def test_throttle_limits_the_rate_and_repays_debts() -> None:
    clock = ManualClock()
    throttle = ReplicationQuota(clock.monotonic)
    throttle.rate = 1000
    throttle.take(3000)
    assert throttle.is_exceeded
    clock.advance(1900)
    assert throttle.is_exceeded
    clock.advance(200)
    assert not throttle.is_exceeded


def test_without_a_rate_nothing_is_held_back() -> None:
    throttle = ReplicationQuota(ManualClock().monotonic)
    throttle.take(1 << 40)
    assert not throttle.is_exceeded


def test_a_list_names_single_replicas_or_all() -> None:
    assert is_throttled(("0:1", "1:2"), 1, 2)
    assert not is_throttled(("0:1", "1:2"), 1, 1)
    assert is_throttled(("*",), 5, 5)


def test_a_follower_is_held_back_while_a_reassignment_adds_it_and_never_in_sync(partition: Partition) -> None:
    throttles = FollowerThrottles(ManualClock().monotonic)
    adding = msgspec.structs.replace(state(leader=2, isr=(2,)), adding_replicas=(1,))
    partition.apply(adding)
    assert throttles.of(partition) is throttles.moving
    listed = replace(partition.log.config, follower_replication_throttled_replicas=("0:1",))
    partition.update_config(listed)
    assert throttles.of(partition) is throttles.listed
    partition.apply(msgspec.structs.replace(adding, isr=(1, 2), partition_epoch=1))
    assert throttles.of(partition) is None
