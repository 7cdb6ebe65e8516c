"""The hot path must not become more expensive unnoticed: see benchmarks/gate.py."""

import sys
from pathlib import Path

import pytest

from benchmarks import gate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="CPU times are read from /proc, by epoll clients"
    ),
]


@pytest.mark.skipif(
    sys.version_info[:2] not in gate.BASELINE, reason="instructions were counted for other versions of Python"
)
def test_requests_execute_no_more_instructions_than_allowed() -> None:
    assert gate.excess_instructions() == []


def test_requests_cost_no_more_cpu_than_a_busy_machine_explains(tmp_path: Path) -> None:
    """Other work on the machine makes a request dearer, never cheaper: the cheapest of three measurements counts."""
    dear = {load.name for load in gate.LOADS}
    for measurement in range(3):
        scratch = tmp_path / str(measurement)
        scratch.mkdir()
        costs = gate.measure_cpu(scratch)
        dear &= {cost.load for cost in costs if cost.exceeds(gate.CPU_ALLOWED_ON_A_BUSY_MACHINE)}
        if not dear:
            return
    raise AssertionError([str(cost) for cost in costs if cost.load in dear])
