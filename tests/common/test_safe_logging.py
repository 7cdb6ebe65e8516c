"""Log lines with text from clients."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from barnabas.common.clock import ManualClock
from barnabas.common.safe_logging import (
    LINES_IN_A_PERIOD,
    MAX_LINE,
    LineLimit,
    escaped,
    line_limit,
    log_suppressed,
    plain_lines,
    rate_limited_logger,
    safe_logger,
    use_limits,
)

FORGED = "t\n2026-11-16 12:00:00,000 ERROR barnabas.broker.broker: every log dir has failed"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Output of the handler of an embedding program without our filters."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logging.root.addHandler(handler)
    yield stream
    logging.root.removeHandler(handler)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-1", "orders-1"),
        ("Größe 漢字 \N{SNOWMAN}", "Größe 漢字 \N{SNOWMAN}"),
        ("a\r\nb\tc\0", r"a\r\nb\tc\x00"),
        ("\x1b[2J\x9b31m\x7f", r"\x1b[2J\x9b31m\x7f"),
        ("\u2028\u2029\x85", r"\u2028\u2029\x85"),
        ("\u202eevil\u2066\u200f", r"\u202eevil\u2066\u200f"),
        ("\ud800", r"\ud800"),
    ],
)
def test_special_characters_are_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_a_newline_in_a_name_makes_no_second_line(written: io.StringIO) -> None:
    safe_logger("barnabas.test.safe").warning("topic %s is gone", FORGED)
    (line,) = written.getvalue().splitlines()
    assert line.startswith(r"WARNING topic t\n2026-11-16")


def test_a_traceback_keeps_its_lines_but_none_begins_as_a_line_of_the_log_does(written: io.StringIO) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        safe_logger("barnabas.test.safe").exception("it failed")
    first, *rest = written.getvalue().splitlines()
    assert first == "ERROR it failed"
    assert len(rest) > 2
    assert all(line.startswith("  ") for line in rest)


def test_a_long_name_is_cut_in_the_middle(written: io.StringIO) -> None:
    safe_logger("barnabas.test.safe").warning("group %s has lost %s", "x" * 30_000, "its leader")
    (line,) = written.getvalue().splitlines()
    assert len(line) < MAX_LINE + 100
    assert line.endswith("has lost its leader")
    assert "28066 characters" in line


def test_a_line_that_was_cut_is_not_cut_again(written: io.StringIO) -> None:
    before = plain_lines.total_cut
    for handler in logging.root.handlers:
        handler.addFilter(plain_lines)  # as that of `barnabas serve`
    try:
        safe_logger("barnabas.test.safe").warning("group %s has lost %s", "x" * 30_000, "its leader")
    finally:
        for handler in logging.root.handlers:
            handler.removeFilter(plain_lines)
    assert "28066 characters" in written.getvalue()
    assert plain_lines.total_cut == before + 1


@pytest.fixture
def _narrow_limits() -> Iterator[None]:
    use_limits(3, 200)
    yield
    use_limits(LINES_IN_A_PERIOD, MAX_LINE)


@pytest.mark.usefixtures("_narrow_limits")
def test_number_and_length_of_lines_are_limited_by_settings(caplog: pytest.LogCaptureFixture) -> None:
    logger = rate_limited_logger("barnabas.test.settings")
    for _ in range(5):
        logger.warning("closed: %s", "x" * 300)
    assert [len(record.getMessage()) <= 200 for record in caplog.records] == [True] * 3


def test_a_line_that_is_plain_keeps_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    safe_logger("barnabas.test.safe").warning("%s has %d partitions", "orders", 3)
    assert caplog.records[0].args == ("orders", 3)


def test_a_flood_becomes_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    logger = rate_limited_logger("barnabas.test.limited")
    before = line_limit.total_left_out
    for number in range(1000):
        logger.warning("bad client %d", number)
    logger.warning("another kind")
    log_suppressed()
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:LINES_IN_A_PERIOD] == [f"bad client {number}" for number in range(LINES_IN_A_PERIOD)]
    assert lines[LINES_IN_A_PERIOD:] == [
        "another kind",
        "990 more lines like this were left out: bad client %d",
    ]
    assert line_limit.total_left_out - before == 990


def test_a_flood_of_warnings_hides_no_error(caplog: pytest.LogCaptureFixture) -> None:
    logger = rate_limited_logger("barnabas.test.levels")
    for _ in range(100):
        logger.log(logging.WARNING, "closed: %s", "garbage")
    logger.log(logging.ERROR, "closed: %s", "our own mistake")
    assert caplog.records[-1].getMessage() == "closed: our own mistake"


def test_new_period_reports_omitted_lines_and_logs_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    limit = LineLimit(clock.monotonic)
    logger = logging.getLogger("barnabas.test.clock")
    logger.addFilter(limit)
    for _ in range(LINES_IN_A_PERIOD + 5):
        logger.warning("again")
    clock.advance(60_000)
    logger.warning("something else")  # any line triggers the report
    logger.warning("again")
    lines = [record.getMessage() for record in caplog.records[LINES_IN_A_PERIOD:]]
    assert lines == ["5 more lines like this were left out: again", "something else", "again"]


def test_library_log_lines_are_reworded_in_the_log_of_barnabas_serve() -> None:
    """asyncio quotes exceptions, and those quote clients."""
    program = (
        "import logging; from barnabas.cli.serve import log_to_stderr; log_to_stderr(False); "
        f"logging.getLogger('asyncio').error('Task exception was never retrieved: %s', {FORGED!r})"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    (line,) = ended.stderr.splitlines()
    assert "asyncio: Task exception was never retrieved: t\\n2026" in line
