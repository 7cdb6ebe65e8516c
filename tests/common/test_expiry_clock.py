"""The clock for expiry while the wall clock jumps."""

import pytest

from barnabas.common.clock import ExpiryClock

HOUR = 3_600_000
DAY = 24 * HOUR


class Machine:
    """A wall clock that can be set, and the time since boot, which cannot."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000_000
        self.boot = 100_000
        self.clock = ExpiryClock(lambda: self.wall, lambda: self.boot / 1000)

    def wait(self, milliseconds: int) -> None:
        self.wall += milliseconds
        self.boot += milliseconds

    @property
    def ahead(self) -> float:
        return self.clock.ahead_seconds()


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_it_is_the_wall_clock_as_long_as_that_does_not_jump(machine: Machine) -> None:
    machine.wait(400 * DAY)  # as while the machine is suspended
    assert machine.clock.now_ms() == machine.wall
    for _ in range(1000):  # corrected in small steps, by an hour and more
        machine.wait(1000)
        machine.wall += 5000
        assert machine.clock.now_ms() == machine.wall
    machine.wall -= DAY
    assert machine.clock.now_ms() == machine.wall


def test_a_jump_does_not_count_for_an_hour(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    before = machine.clock.now_ms()
    machine.wall += 30 * DAY
    assert machine.clock.now_ms() == before
    machine.wait(HOUR - 1)
    assert (machine.clock.now_ms(), machine.ahead) == (before + HOUR - 1, 30 * 24 * 3600)
    machine.wait(1)
    assert (machine.clock.now_ms(), machine.ahead) == (machine.wall, 0)
    assert len([line for line in caplog.messages if "jumped ahead by 2592000 s" in line]) == 1


def test_a_clock_that_is_set_back_counts_at_once(machine: Machine) -> None:
    machine.wall += 30 * DAY
    machine.clock.now_ms()
    machine.wait(60_000)
    machine.wall -= 30 * DAY
    assert (machine.clock.now_ms(), machine.ahead) == (machine.wall, 0)


def test_an_operator_can_confirm_the_new_time(machine: Machine) -> None:
    machine.wall += 30 * DAY
    assert machine.clock.now_ms() < machine.wall
    machine.clock.pause_ms = 0
    assert machine.clock.now_ms() == machine.wall
    machine.clock.pause_ms = HOUR
    assert machine.clock.now_ms() == machine.wall


def test_where_the_time_since_boot_is_unknown_it_is_the_wall_clock(machine: Machine) -> None:
    clock = ExpiryClock(lambda: machine.wall, None)
    machine.wall += 30 * DAY
    assert clock.now_ms() == machine.wall
