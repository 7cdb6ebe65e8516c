from __future__ import annotations

from barnabas.clock import ManualClock
from barnabas.replication.throttle import Throttle, is_throttled


def test_a_throttle_gives_its_rate_and_lets_debts_be_paid() -> None:
    clock = ManualClock()
    throttle = Throttle(clock.monotonic)
    throttle.rate = 1000
    throttle.take(3000)
    assert throttle.is_exceeded
    clock.advance(1900)
    assert throttle.is_exceeded
    clock.advance(200)
    assert not throttle.is_exceeded


def test_without_a_rate_nothing_is_held_back() -> None:
    throttle = Throttle(ManualClock().monotonic)
    throttle.take(1 << 40)
    assert not throttle.is_exceeded


def test_a_list_names_single_replicas_or_all() -> None:
    assert is_throttled(("0:1", "1:2"), 1, 2)
    assert not is_throttled(("0:1", "1:2"), 1, 1)
    assert is_throttled(("*",), 5, 5)
