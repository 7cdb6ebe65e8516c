"""Tests skipped for a missing program are counted at the end of a run, with the installing command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent


def last_lines(*arguments: str, **environment: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=TESTS.parent,
        env={**os.environ, "CI": "", **environment},
    )
    return done.stdout.splitlines()[-3:]


def test_run_without_programs_reports_the_number_of_skipped_tests() -> None:
    files = [str(TESTS / "clients" / "test_kcat.py"), str(TESTS / "support/kafka/test_broker.py")]
    *_, line, summary = last_lines("-n", "2", *files, PATH="/nowhere", KAFKA_LIBS="/nowhere")
    skipped = re.search(r"(\d+) skipped", summary)
    assert skipped is not None, summary
    assert int(skipped[1]) > 3
    reason = "tests were skipped because programs are missing here; to run them: make java programs"
    assert line == f"{skipped[1]} {reason}"


def test_run_without_skipped_tests_reports_nothing() -> None:
    found = last_lines("-n", "0", str(TESTS / "common/test_durations.py"))
    assert not any("skipped" in line for line in found)
