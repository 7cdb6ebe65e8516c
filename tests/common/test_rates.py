import pytest

from barnabas.common.clock import ManualClock
from barnabas.common.rates import Pacing, TokenBucket


def test_a_bucket_is_full_at_first_and_may_be_overdrawn() -> None:
    """The figures of Kafka's TokenBucketTest."""
    clock = ManualClock()
    bucket = TokenBucket(10, 10.0, clock.monotonic)
    assert bucket.tokens == 100
    bucket.take(110)
    assert (bucket.tokens, bucket.wait()) == (-10, 1.0)  # a second's worth of waiting
    clock.advance(1000)
    assert (bucket.tokens, bucket.wait()) == (0, 0.0)
    clock.advance(994_000)
    assert bucket.tokens == 100


def test_an_empty_bucket_without_debt_does_not_wait() -> None:
    bucket = TokenBucket(5, clock=ManualClock().monotonic)
    bucket.take(5)
    assert (bucket.tokens, bucket.wait()) == (0, 0.0)


def test_a_lower_rate_takes_the_tokens_above_its_burst_and_a_higher_one_gives_none() -> None:
    clock = ManualClock()
    bucket = TokenBucket(100, clock=clock.monotonic)
    bucket.rate = 10
    assert (bucket.rate, bucket.tokens) == (10, 10)
    bucket.rate = 1000
    assert bucket.tokens == 10
    clock.advance(500)
    assert bucket.tokens == 510


def test_a_debt_is_paid_at_the_new_rate() -> None:
    bucket = TokenBucket(10, clock=ManualClock().monotonic)
    bucket.take(30)
    assert bucket.wait() == 2.0
    bucket.rate = 20
    assert bucket.wait() == 1.0


def test_pieces_wait_for_those_before_them() -> None:
    clock = ManualClock()
    pacing = Pacing(1000.0, clock.monotonic)
    assert [pacing.delay(500), pacing.delay(1000), pacing.delay(1)] == pytest.approx([0.0, 0.5, 1.5])
    assert pacing.remaining == pytest.approx(1.501)


def test_time_without_work_allows_no_burst() -> None:
    clock = ManualClock()
    pacing = Pacing(1000.0, clock.monotonic)
    clock.advance(60_000)
    assert pacing.remaining == 0
    assert [pacing.delay(1000), pacing.delay(1000)] == pytest.approx([0.0, 1.0])


def test_a_new_rate_counts_from_the_next_piece_on() -> None:
    pacing = Pacing(1000.0, ManualClock().monotonic)
    pacing.delay(1000)
    pacing.rate = 100.0
    assert [pacing.delay(100), pacing.delay(100)] == pytest.approx([1.0, 2.0])
