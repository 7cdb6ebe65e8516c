"""The hot path must not become more expensive unnoticed: see benchmarks/gate.py."""

import sys
from pathlib import Path

import pytest

from benchmarks import gate


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="CPU times are read from /proc, by epoll clients"
)
def test_a_produce_and_a_fetch_request_cost_no_more_cpu_than_their_limits(tmp_path: Path) -> None:
    too_expensive = [str(cost) for cost in gate.measure(tmp_path) if cost.loops > gate.LIMITS[cost.api]]
    assert not too_expensive
