"""Cost limits of the hot path: see benchmarks/gate.py."""

import sys
from pathlib import Path

import pytest

from benchmarks import gate, starting
from benchmarks.gate_loads import LOADS

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


@pytest.mark.skipif(
    sys.version_info[:2] not in gate.START_ALLOWED,
    reason="starts were measured with other versions of Python",
)
def test_a_start_takes_no_more_modules_instructions_and_memory_than_allowed() -> None:
    """A first start may have to write bytecode; the second one counts then."""
    assert gate.excess_start() == [] or gate.excess_start() == []


@pytest.mark.skipif(
    sys.version_info[:2] not in gate.START_ALLOWED,
    reason="starts were measured with other versions of Python",
)
def test_an_import_that_a_start_does_not_need_is_noticed() -> None:
    modules, instructions = starting.count("urllib.request", "importlib.metadata")
    allowed = gate.START_ALLOWED[sys.version_info[:2]]
    assert (modules > allowed.modules, instructions > allowed.instructions) == (True, True)


def test_requests_cost_no_more_cpu_than_a_busy_machine_explains(tmp_path: Path) -> None:
    """Other work on the machine makes a request dearer, never cheaper: the cheapest of three measurements counts."""
    dear = {load.name for load in LOADS}
    for measurement in range(3):
        scratch = tmp_path / str(measurement)
        scratch.mkdir()
        costs = gate.measure_cpu(scratch)
        dear &= {cost.load for cost in costs if cost.exceeds(gate.CPU_ALLOWED_ON_A_BUSY_MACHINE)}
        if not dear:
            return
    raise AssertionError([str(cost) for cost in costs if cost.load in dear])
