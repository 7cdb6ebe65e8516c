"""`make demo` as one process."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from examples.demo import __main__ as demo
from examples.demo.show import Show

TIMEOUT = 300.0


def _start(folder: Path, seconds: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "DEMO_SECONDS": seconds, "TMPDIR": str(folder), "COLUMNS": "100"}
    return subprocess.Popen(
        [sys.executable, "-m", "examples.demo"], stdout=subprocess.PIPE, text=True, env=environment
    )


@pytest.mark.parametrize("seconds", ["soon", "", "0", "-3", "inf", "nan", "86400", "[red]"])
def test_a_length_that_is_none_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    monkeypatch.setenv("DEMO_SECONDS", seconds)
    assert demo.main() == 2
    output = capsys.readouterr().out
    assert output.startswith(f"Error: not a valid duration: DEMO_SECONDS={seconds}")
    assert output.count("\n") == 1


@pytest.mark.parametrize(("right", "code"), [(True, 0), (False, 1)])
def test_exit_code_reports_whether_all_results_were_exact(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, right: bool, code: int
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Show, "run", lambda show: right)
    assert demo.main() == code
    assert len(_left_in(tmp_path, patience=0)) == code  # relevant output


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT + 60)
def test_every_event_is_counted_once_and_nothing_is_left_behind(tmp_path: Path) -> None:
    process = _start(tmp_path, "3")
    output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, output
    assert "Every event was counted exactly once, by each pipeline." in output
    assert "6,000 events written" in output
    assert "Traceback" not in output
    assert _left_in(tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT + 60)
def test_ctrl_c_ends_it_soon_and_nothing_is_left_behind(tmp_path: Path) -> None:
    process = _start(tmp_path, "600")
    assert process.stdout is not None
    output = []
    for line in process.stdout:
        output.append(line)
        if "planning" in line:
            break
    else:
        raise AssertionError(f"it ended with {process.wait()}: {''.join(output)}")
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, rest
    assert "Stopped." in rest
    assert _left_in(tmp_path) == []


def _left_in(folder: Path, patience: float = 30) -> list[str]:
    """Java's counter file is removed a moment after its process."""
    deadline = time.monotonic() + patience
    while (left := [path.name for path in folder.iterdir()]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
