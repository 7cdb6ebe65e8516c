import pytest

from barnabas.common.retry import Backoff, Deadline, delay_after


def test_a_deadline_passes() -> None:
    assert not Deadline(60).passed
    assert 0 < Deadline(60).remaining <= 60
    assert Deadline(0).passed
    assert Deadline(-1).remaining == 0


def test_delays_double_up_to_the_maximum_and_start_again_after_a_reset() -> None:
    backoff = Backoff(0.5, 3.0, jitter=0)
    assert [backoff.next_delay() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.next_delay() == 0.5


def test_delays_grow_from_a_longer_minimum() -> None:
    backoff = Backoff(1.0, 300.0, jitter=0)
    assert [backoff.next_delay(at_least=15.0), backoff.next_delay(), backoff.next_delay(15.0)] == [15, 30, 60]


def test_jitter_spreads_delays_around_their_mean() -> None:
    delays = [Backoff(1.0, 1.0).next_delay() for _ in range(200)]
    assert 0.8 <= min(delays) < 0.95 < 1.05 < max(delays) <= 1.2


@pytest.mark.parametrize(
    ("failures", "maximum", "growth", "delay"),
    [
        (0, 60.0, 2.0, 0.1),
        (3, 60.0, 2.0, 0.8),
        (3, 0.5, 2.0, 0.5),
        (2, 60.0, 1.0, 0.1),
        (10**6, 60.0, 2.0, 60.0),
    ],
)
def test_a_delay_depends_on_the_failures_before_it(
    failures: int, maximum: float, growth: float, delay: float
) -> None:
    assert delay_after(failures, 0.1, maximum, growth) == pytest.approx(delay)
