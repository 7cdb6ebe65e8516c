"""Speed of partition moves, and identity of plans."""

from __future__ import annotations

from barnabas.client.placement.planner import ReplicaMove
from barnabas.client.placement.plans import ReassignmentPlan
from barnabas.common.types import TopicPartition
from barnabas.services.console.administration.moving import Meter, digest

TP = TopicPartition("orders", 0)


def test_rate_is_known_at_the_second_sample_and_kept_for_a_second() -> None:
    meter = Meter()
    assert meter.rates(10.0, {TP: 100}) == {TP: None}
    assert meter.rates(12.0, {TP: 300}) == {TP: 100.0}
    assert meter.rates(12.5, {TP: 900}) == {TP: 100.0}
    assert meter.rates(14.0, {TP: 500}) == {TP: 100.0}
    assert meter.rates(15.0, {}) == {}
    assert meter.rates(16.0, {TP: 0}) == {TP: None}


def test_plans_that_differ_have_different_digests() -> None:
    one = ReassignmentPlan([ReplicaMove(TP, (1, 2), (2, 3))], [], {})
    other = ReassignmentPlan([ReplicaMove(TP, (1, 2), (3, 2))], [], {})
    assert digest(one) == digest(ReassignmentPlan([ReplicaMove(TP, (1, 2), (2, 3))], [], {TP: 5}))
    assert (
        len(
            {
                digest(one),
                digest(other),
                digest(ReassignmentPlan([], [TP], {})),
                digest(ReassignmentPlan([], [], {})),
            }
        )
        == 4
    )
