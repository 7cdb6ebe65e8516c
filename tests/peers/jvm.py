"""Third-party JVM programs, with jars fetched by `tools/install-peers`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.programs import PROJECT_ROOT
from tests.support.waiting import still_running, until

SOURCES = Path(__file__).parent / "java"
SECONDS = 120.0  # a JVM with a cluster in it starts slowly
# Flink serializes classes of the JDK itself.
OPENED = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "time", "net", "io")]
JARS = {
    "flink": PROJECT_ROOT / ".cache" / "peers" / "flink",
    "storm": PROJECT_ROOT / ".cache" / "peers" / "storm",
    "flume": PROJECT_ROOT / ".cache" / "flume-1.11.0" / "libs",
}


def require(name: str, jar: str) -> None:
    """Skip the test where jars or Java are missing."""
    if shutil.which("javac") is None:
        pytest.skip("no `javac` on PATH: install a JDK, 17 or newer")
    if not list(JARS[name].glob(f"{jar}-*.jar")):
        pytest.skip(f"{name} is not installed: run `make stream-processors`")


def compiled(name: str, program: str, folder: Path) -> str:
    """The class path of one of our programs."""
    jars = f"{JARS[name]}/*"
    subprocess.run(["javac", "-cp", jars, "-d", str(folder), str(SOURCES / f"{program}.java")], check=True)
    return f"{folder}:{jars}"


class JvmProcess:
    """A JVM process; `lines` is its output."""

    def __init__(self, class_path: str, main: str, *arguments: str, options: tuple[str, ...] = ()) -> None:
        self.lines: list[str] = []
        self._folder = tempfile.TemporaryDirectory()  # files in its working directory are removed
        self._process = subprocess.Popen(
            ["java", "-Xmx1g", *OPENED, *options, "-cp", class_path, main, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder.name,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            self.lines.extend(output)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        def last_lines() -> str:
            return "".join(self.lines[-40:])

        until(condition, last_lines, SECONDS, meanwhile=still_running(self._process, last_lines))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
