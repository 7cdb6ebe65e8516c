"""Deadlines that are often postponed and rarely expire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.clock import ManualClock, Timer
from barnabas.coordination.deadlines import Deadlines


class CountingClock(ManualClock):
    """Counts the timers that are set."""

    timers = 0

    def call_later(self, seconds: float, callback: object) -> Timer:
        self.timers += 1
        return super().call_later(seconds, callback)  # type: ignore[arg-type]


@pytest.fixture
def clock() -> CountingClock:
    return CountingClock()


@pytest.fixture
def reached() -> list[str]:
    return []


@pytest.fixture
def deadlines(clock: CountingClock, reached: list[str]) -> Deadlines[str]:
    return Deadlines(clock, clock, reached.append)


def test_a_deadline_is_reached_once(
    deadlines: Deadlines[str], clock: CountingClock, reached: list[str]
) -> None:
    deadlines.set("a", 100)
    clock.advance(98)
    assert reached == []
    clock.advance(1000)
    assert reached == ["a"]
    assert "a" not in deadlines


def test_pushing_a_deadline_back_sets_no_timer(
    deadlines: Deadlines[str], clock: CountingClock, reached: list[str]
) -> None:
    deadlines.set("a", 100)
    for _ in range(50):
        clock.advance(1)
        deadlines.set("a", 100)
    assert clock.timers == 1
    clock.advance(98)
    assert reached == []
    clock.advance(3)
    assert reached == ["a"]


def test_a_deadline_can_be_pulled_forward(
    deadlines: Deadlines[str], clock: CountingClock, reached: list[str]
) -> None:
    deadlines.set("a", 1000)
    deadlines.set("a", 10)
    clock.advance(20)
    assert reached == ["a"]
    clock.advance(2000)
    assert reached == ["a"]


def test_a_cancelled_deadline_is_not_reached(
    deadlines: Deadlines[str], clock: CountingClock, reached: list[str]
) -> None:
    deadlines.set("a", 10)
    deadlines.set("b", 10)
    deadlines.cancel("a")
    clock.advance(20)
    assert reached == ["b"]
    deadlines.set("c", 10)
    deadlines.clear()
    clock.advance(20)
    assert reached == ["b"]
    assert len(deadlines) == 0


def test_expired_deadline_may_set_new_ones(clock: CountingClock) -> None:
    received: list[int] = []

    def again(number: int) -> None:
        received.append(number)
        if number < 3:
            numbered.set(number + 1, 10)

    numbered = Deadlines(clock, clock, again)
    numbered.set(1, 10)
    clock.advance(100)
    assert received == [1, 2, 3]


def test_a_failure_at_one_deadline_does_not_keep_the_others_from_being_reached(clock: ManualClock) -> None:
    received: list[str] = []

    def fail_once(key: str) -> None:
        received.append(key)
        if key == "broken":
            raise ValueError("a mistake of ours")

    deadlines = Deadlines(clock, clock, fail_once)
    for key in ("broken", "second", "third"):
        deadlines.set(key, 10)
    deadlines.set("later", 20)
    with pytest.raises(ValueError):
        clock.advance(10)
    clock.advance(1)
    assert received == ["broken", "second", "third"]

    clock.advance(10)
    assert received[3:] == ["later"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([None, 5, 10, 20, 40]), st.integers(0, 15)),
        max_size=30,
    )
)
def test_deadlines_equal_those_of_a_naive_list(
    steps: list[tuple[str, int | None, int]],
) -> None:
    clock = ManualClock()
    received: list[str] = []
    deadlines = Deadlines(clock, clock, received.append)
    due: dict[str, int] = {}
    now = 0
    for key, delay, pause in steps:
        if delay is None:
            deadlines.cancel(key)
            due.pop(key, None)
        else:
            deadlines.set(key, delay)
            due[key] = now + delay
        for _ in range(pause):
            now += 1
            clock.advance(1)
            for one in received:
                assert due.pop(one) <= now + 1, "too early; a millisecond of slack is allowed"
            received.clear()
            assert all(timestamp > now for timestamp in due.values()), "too late"
