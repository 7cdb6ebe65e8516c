import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.bench.latencies import Latencies


@given(st.lists(st.floats(1e-5, 100), min_size=1, max_size=200), st.sampled_from([1, 50, 95, 99, 100]))
def test_a_percentile_is_right_to_one_in_a_hundred(values: list[float], percent: int) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
    assert latencies.percentile(percent) == pytest.approx(exact, rel=0.011)
    assert latencies.largest == max(values)
