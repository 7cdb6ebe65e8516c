"""Log lines about clients."""

from __future__ import annotations

import logging

import pytest

from barnabas.clock import ManualClock
from barnabas.server.complaints import LINES_IN_A_PERIOD, Complaints


def test_a_flood_of_complaints_becomes_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    complaints = Complaints(clock.monotonic)
    for number in range(1000):
        complaints.log(logging.WARNING, "bad client %d", number)
    assert len(caplog.records) == LINES_IN_A_PERIOD
    clock.advance(60_000)
    complaints.log(logging.WARNING, "another")
    lines = [record.getMessage() for record in caplog.records[LINES_IN_A_PERIOD:]]
    assert lines == ["990 more connections were refused or closed for such reasons", "another"]
