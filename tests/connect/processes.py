"""`barnabas connect run` as a separate process that can be killed with its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from examples.demo.pipelines import SHORT_LIVED
from tests.support.programs import PROJECT_ROOT

DEADLINE = 400.0


def run(folder: Path, file: str, until: Callable[[], bool] | None) -> None:
    """Run to its end, or kill it as soon as `until` is true; it must not have ended before."""
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "connect",
        "run",
        file,
        *(["--once"] if until is None else []),
    ]
    options = {"PYTHONPATH": str(PROJECT_ROOT / "src"), "JDK_JAVA_OPTIONS": " ".join(SHORT_LIVED)}
    environment = os.environ | options
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, start_new_session=True, env=environment
        )
    deadline = time.monotonic() + DEADLINE
    try:
        while process.poll() is None and (until is None or not until()):
            assert time.monotonic() < deadline, (folder / "log").read_text()[-3000:]
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
    expected = 0 if until is None else -signal.SIGKILL
    assert process.returncode == expected, (folder / "log").read_text()[-3000:]
