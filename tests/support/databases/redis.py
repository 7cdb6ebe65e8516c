"""A real Redis for tests: Debian's, with fsync before every acknowledgement."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from barnabas.connect.sinks.redis.commands import Part, RedisError, Reply
from barnabas.connect.sinks.redis.sink import RedisAddress, RedisConnection
from barnabas.security.authn.credentials import Secret
from tests.support.programs import find, free_port
from tests.support.waiting import retry

DEADLINE = 60.0
PASSWORD = "letter-by-letter"


class RedisServer:
    def __init__(
        self, folder: Path, *settings: str, url: str = "redis://127.0.0.1", ca: str | None = None
    ) -> None:
        [self._program] = find("redis-server")
        self._folder, self._settings = folder, settings
        self.port, self.ca = free_port(), ca
        self.url = f"{url}:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        port = "--tls-port" if self.url.startswith("rediss") else "--port"
        command = [
            self._program, "--port", "0", port, str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder),
            "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--requirepass", PASSWORD, *self._settings,
        ]  # fmt: skip
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        # A RedisError is LOADING: the server reads its append-only file.
        errors = (OSError, EOFError, RedisError)
        retry(lambda: self.ask("PING"), errors, lambda: (self._folder / "log").read_text(), DEADLINE)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(DEADLINE)

    def ask(self, *parts: Part) -> Reply:
        server = RedisConnection(RedisAddress(self.url, None, Secret(PASSWORD), self.ca))
        try:
            return server.ask(*parts)
        finally:
            server.close()


@contextmanager
def running_redis(
    *settings: str, url: str = "redis://127.0.0.1", ca: str | None = None
) -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        server = RedisServer(Path(folder), *settings, url=url, ca=ca)
        server.start()
        try:
            yield server
        finally:
            server.kill()
