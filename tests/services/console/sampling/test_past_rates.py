from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.services.console.history.curve import Curve
from barnabas.services.console.sampling.series import PastRate, with_past

START = 1_800_000_000_000


def past_of(rates: list[float], step: int) -> list[PastRate]:
    return [PastRate(START + (at + 1) * step * 1000, rate) for at, rate in enumerate(rates)]


def empty_curve(steps: int, step: int) -> Curve:
    return Curve([START + at * step * 1000 for at in range(steps)], [None] * steps)


@given(st.lists(st.integers(0, 100), min_size=2, max_size=30), st.integers(1, 30), st.integers(1, 30))
def test_steps_of_another_length_have_the_same_number_of_records(
    rates: list[int], step: int, other: int
) -> None:
    past = past_of([float(rate) for rate in rates], step)
    steps = max(2, -(-len(rates) * step // other))

    filled = with_past(empty_curve(steps, other), past)

    assert sum(value or 0 for value in filled.values) * other == pytest.approx(sum(rates) * step)


def test_recorded_samples_are_not_overwritten() -> None:
    curve = Curve([START + at * 10_000 for at in range(4)], [None, None, 7.0, None])

    filled = with_past(curve, past_of([1.0, 2.0, 3.0, 4.0], 10))

    assert filled.values == [1.0, 2.0, 7.0, None]


def test_without_a_past_the_curve_stays_as_it_is() -> None:
    curve = empty_curve(3, 10)

    assert with_past(curve, []) is curve
