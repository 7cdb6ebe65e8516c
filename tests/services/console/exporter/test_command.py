"""`barnabas console --exporter-only` as a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from barnabas.testing import EmbeddedBroker

COMMAND = [sys.executable, "-m", "barnabas", "console", "--exporter-only", "--listen", "127.0.0.1:0"]
READY = "The exporter is ready on "


def test_command_serves_the_page_until_it_is_stopped() -> None:
    with EmbeddedBroker() as broker:
        command = [*COMMAND, "--bootstrap-server", broker.bootstrap_servers]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line.startswith(READY)
                with urlopen(line.removeprefix(READY).strip(), timeout=60) as answer:
                    assert "barnabas_console_snapshot_age_seconds" in answer.read().decode()
            finally:
                process.terminate()
        assert process.returncode == 0


def test_a_file_of_tokens_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    command = [*COMMAND, "--tokens", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "--tokens=" in done.stderr
