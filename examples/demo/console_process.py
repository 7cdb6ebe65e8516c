"""The web console of the demo, in a separate process that ends with it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

LISTEN = ("127.0.0.1", 8090)
NEEDED = ("jinja2", "uvicorn", "pyarrow")
READY = "The console is ready on "
END_SECONDS = 30.0


class ConsoleProcess:
    """Passes its address, or the reason why it is not available, to a callback, from another thread."""

    def __init__(self, servers: str, folder: Path, tell: Callable[[str], None]) -> None:
        self._greeting = json.dumps({"bootstrap": servers, "settings": {}}) + "\n"
        self._folder = folder
        self._report = tell
        self._process: subprocess.Popen[str] | None = None
        self._reading = threading.Thread(target=self._read, name="console", daemon=True)

    def __enter__(self) -> ConsoleProcess:
        missing = [name for name in NEEDED if find_spec(name) is None]
        if missing:
            self._report("No console: pip install 'barnabas[console]' brings what it needs.")
            return self
        command = [sys.executable, "-m", "barnabas", "console", "--listen", _free_address()]
        self._process = subprocess.Popen(
            [*command, "--data", str(self._folder), "--companion"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has already exited and reported why
            self._process.stdin.write(self._greeting)
            self._process.stdin.flush()
        self._reading.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Close its input, which ends the process, then remove the folder."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                if line.startswith(READY):
                    self._report(f"Watch it move: {line.removeprefix(READY).strip()}")


def _free_address() -> str:
    """Default port, or any free one if it is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(LISTEN)
        except OSError:
            return f"{LISTEN[0]}:0"
    return f"{LISTEN[0]}:{LISTEN[1]}"
