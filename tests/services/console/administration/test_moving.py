"""How fast partitions move, and that two plans are told apart."""

from __future__ import annotations

from barnabas.client.placement.planning import Move
from barnabas.client.placement.plans import Plan
from barnabas.common.types import TopicPartition
from barnabas.services.console.administration.moving import Meter, digest

PLACE = TopicPartition("orders", 0)


def test_a_rate_is_known_at_the_second_look_and_kept_for_a_second() -> None:
    meter = Meter()
    assert meter.rates(10.0, {PLACE: 100}) == {PLACE: None}
    assert meter.rates(12.0, {PLACE: 300}) == {PLACE: 100.0}
    assert meter.rates(12.5, {PLACE: 900}) == {PLACE: 100.0}
    assert meter.rates(14.0, {PLACE: 500}) == {PLACE: 100.0}
    assert meter.rates(15.0, {}) == {}
    assert meter.rates(16.0, {PLACE: 0}) == {PLACE: None}


def test_plans_that_differ_have_different_digests() -> None:
    one = Plan([Move(PLACE, (1, 2), (2, 3))], [], {})
    other = Plan([Move(PLACE, (1, 2), (3, 2))], [], {})
    assert digest(one) == digest(Plan([Move(PLACE, (1, 2), (2, 3))], [], {PLACE: 5}))
    assert len({digest(one), digest(other), digest(Plan([], [PLACE], {})), digest(Plan([], [], {}))}) == 4
