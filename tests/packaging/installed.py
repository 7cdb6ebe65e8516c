"""Installed copies of Barnabas in separate environments, and brokers started from them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.programs import PROJECT_ROOT, missing

READY = "Barnabas is ready on "
SECONDS = 60.0


def find_uv() -> str:
    beside = Path(sys.executable).parent / "uv"
    found = shutil.which("uv") or (str(beside) if beside.exists() else None)
    if found is None:
        missing("no uv here")
    return found


def run(*command: object, env: Mapping[str, str] | None = None, stdin: str = "", seconds: float = 600) -> str:
    """The standard output of a command that succeeds."""
    ended = subprocess.run(
        [str(word) for word in command],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
        env=None if env is None else {**os.environ, **env},
        check=False,
    )
    assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def build(folder: Path, *targets: str, source: Path = PROJECT_ROOT) -> list[Path]:
    """Build wheel or sdist of a source tree, as `make dist` does."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    for target in targets:
        command += ["--target", target]
    subprocess.run(
        command,
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        check=True,
        capture_output=True,
    )
    return sorted(folder.iterdir())


def new_environment(folder: Path, wheel: Path) -> Path:
    """The `bin` folder of an environment with the core of Barnabas and nothing else."""
    uv = find_uv()
    run(uv, "venv", "--quiet", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    install = (uv, "pip", "install", "--quiet", "--python", python)
    run(*install, "--require-hashes", "--requirement", PROJECT_ROOT / "requirements/core.txt")
    run(*install, "--no-deps", wheel)
    return folder / "bin"


@contextmanager
def serving(
    command: Sequence[object], env: Mapping[str, str] | None = None, exit_code: int = 0
) -> Iterator[tuple[str, list[str]]]:
    """A broker's address and output; SIGTERM ends it cleanly."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=None if env is None else {**os.environ, **env},
    )
    lines: list[str] = []
    response = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith(READY):
                response.set()
        response.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        response.wait(SECONDS)
        ready = [line for line in lines if line.startswith(READY)]
        assert ready, "the broker did not start:\n" + "\n".join(lines)
        yield ready[0].removeprefix(READY), lines
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == exit_code, "\n".join(lines)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join(SECONDS)
        assert process.stdout is not None
        process.stdout.close()
