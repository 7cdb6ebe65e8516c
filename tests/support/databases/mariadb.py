"""A real MariaDB for tests: Debian's, with a temporary data folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.programs import PROJECT_ROOT, SERVERS, free_port
from tests.support.waiting import until

DEADLINE = 120.0
USER, PASSWORD = "shop", "letter-by-letter"


def driver() -> Path:
    found = sorted((PROJECT_ROOT / ".cache" / "mariadb-driver").glob("mariadb-java-client-*.jar"))
    if not found or shutil.which("mariadbd", path=SERVERS) is None:
        pytest.skip("no MariaDB or no driver of it here: run `make mariadb-install`")
    return found[-1]


class MariaDbServer:
    def __init__(self, folder: Path, user: str) -> None:
        self._folder, self._user, self.port = folder, user, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        return f"jdbc:mariadb://127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        data = f"--datadir={self._folder / 'data'}"
        self._run("mariadb-install-db", "--no-defaults", data, f"--user={self._user}", "--skip-test-db")
        command = [
            str(shutil.which("mariadbd", path=SERVERS)), "--no-defaults", data, f"--user={self._user}",
            f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self._folder / 'socket'}",
            f"--pid-file={self._folder / 'pid'}",
        ]  # fmt: skip
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._answers, lambda: (self._folder / "log").read_text()[-3000:], seconds=DEADLINE)

    def ask(self, statement: str) -> list[list[str]]:
        """As the superuser."""
        done = self._run(
            "mariadb", "--no-defaults", f"--socket={self._folder / 'socket'}", "-N", "-B", "-e", statement
        )
        return [line.split("\t") for line in done.splitlines()]

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(DEADLINE)

    def _answers(self) -> bool:
        try:
            return self.ask("SELECT 1") == [["1"]]
        except subprocess.CalledProcessError:
            return False

    def _run(self, program: str, *words: str) -> str:
        path = str(shutil.which(program, path=SERVERS))
        done = subprocess.run([path, *words], capture_output=True, text=True, timeout=DEADLINE, check=True)
        return done.stdout


@contextmanager
def running_mariadb() -> Iterator[MariaDbServer]:
    user = "mysql" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    with tempfile.TemporaryDirectory(prefix="mariadb") as folder:
        if user == "mysql":
            shutil.chown(folder, user)
        server = MariaDbServer(Path(folder), user)
        try:
            server.start()
            yield server
        finally:
            server.kill()
