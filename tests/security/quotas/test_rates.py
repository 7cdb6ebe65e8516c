"""Kafka's Rate, with the values of Kafka's tests (ClientQuotaManagerTest and others)."""

from __future__ import annotations

import pytest

from barnabas.security.quotas.rates import RecentAverage, SampledRate, Windows


def test_a_spike_above_the_quota_is_waited_for_as_by_kafka() -> None:
    rate, now = SampledRate(Windows()), 0.0
    for _ in range(10):
        rate.record(400, now)
        assert rate.wait(500, now) == 0
        now += 1
    now += 0.5
    rate.record(2300, now)
    # (400 * 10 + 2300) / 10.5 s is 600 bytes/s, (600 - 500) / 500 * 10.5 s is 2.1 s.
    assert rate.rate(now) == pytest.approx(600)
    assert rate.wait(500, now) == pytest.approx(2.1)


def test_a_client_that_was_silent_may_use_ten_seconds_of_its_quota_at_once() -> None:
    rate = SampledRate(Windows())
    rate.record(5000, 100.0)
    assert rate.wait(500, 100.0) == 0
    rate.record(1, 100.0)
    assert rate.wait(500, 100.0) > 0


def test_usage_before_all_windows_no_longer_counts() -> None:
    rate = SampledRate(Windows())
    rate.record(50_000, 0.0)
    assert rate.wait(500, 10.9) > 0
    assert rate.wait(500, 11.0) == 0
    assert rate.total(11.0) == 0


def test_undone_append_was_never_used() -> None:
    rate = SampledRate(Windows())
    rate.record(400, 0.0)
    rate.record(9_000, 0.5)
    rate.record(-9_000, 0.5)
    assert rate.total(0.5) == 400


def test_a_rate_keeps_no_more_samples_than_its_windows() -> None:
    rate = SampledRate(Windows(3, 1.0))
    for second in range(100):
        rate.record(1, float(second))
    assert len(rate._samples) <= 4
    assert rate.total(99.0) <= 4


def test_average_drops_values_older_than_a_minute() -> None:
    average = RecentAverage()
    average.record(100, 1000.0)
    average.record(300, 1001.0)
    assert average.value(1001.0) == 200
    average.record(500, 1031.0)
    assert average.value(1031.0) == 300
    assert average.value(1200.0) == 0
