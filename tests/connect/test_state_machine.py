"""Restart and failure of connectors."""

import pytest

from barnabas.connect.declaration import Restart
from barnabas.connect.state_machine import ConnectorState, QueryProgress, Tolerance


def life(**restart: object) -> ConnectorState:
    return ConnectorState(Restart(**restart), stalled_after=300.0)  # type: ignore[arg-type]


def test_pauses_double_up_to_the_longest() -> None:
    one, now, pauses = life(first="1s", longest="5s"), 0.0, []
    for _ in range(5):
        assert one.should_start(now)
        one.started(now)
        one.failed(now, "away")
        assert not one.should_start(now)
        began = now
        while not one.should_start(now):
            now += 0.5
        pauses.append(now - began)
    assert pauses == [1, 2, 4, 5, 5]
    assert (one.state, one.error, one.restarts) == ("retrying", "away", 5)


def test_a_batch_ends_a_row_of_failures() -> None:
    one = life(first="1s")
    one.failed(0, "away")
    one.failed(0, "away")
    one.started(10)
    one.progressed(10, QueryProgress(7, 0))  # reported before it started
    assert one.failures == 2
    one.progressed(11, QueryProgress(8, 0))
    assert (one.failures, one.error) == (0, "")


def test_after_so_many_attempts_a_person_is_needed() -> None:
    one = life(attempts=2)
    for now in (0, 10):
        one.failed(now, "away")
    before = one.state
    assert before == "retrying"
    one.failed(20, "away")
    assert one.state == "failed"
    assert not one.should_start(1e9)
    one.begin_again()
    assert one.should_start(30)


@pytest.mark.parametrize(("lag", "stalled"), [(5, True), (0, False), (None, False)])
def test_a_query_is_stalled_if_it_does_no_batch_although_records_wait(lag: int | None, stalled: bool) -> None:
    one = life()
    one.started(0)
    for now in range(0, 301, 10):
        one.progressed(now, QueryProgress(3, lag))
    assert (one.stalled_for(300) is not None) == stalled
    one.progressed(310, QueryProgress(4, lag))
    assert one.stalled_for(310) is None


def test_more_errors_than_are_tolerated_are_too_many() -> None:
    some = Tolerance((10, 3600.0))
    assert some.take(0, 6)
    assert some.take(1800, 10)
    assert not some.take(1900, 11)
    assert some.take(3601, 11)  # the first six are an hour ago
    some.begin_again()
    assert some.take(3602, 5)
    assert not some.take(3603, 6)
    some.forgive()
    assert some.take(3604, 6)
    assert Tolerance(None).take(0, 10**9)
