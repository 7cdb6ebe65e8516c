"""A local S3 store: versitygw, which stores objects as files and logs a line for each request."""

import http.client
import os
import secrets
import subprocess
import time
from pathlib import Path

from benchmarks.subjects.processes import cpu_seconds
from tests.support.programs import PROJECT_ROOT, free_port

PROGRAM = PROJECT_ROOT / ".cache" / "object-stores" / "versitygw"
BUCKET = "history"
_START_SECONDS = 60


def missing() -> str | None:
    """Reason why versitygw is not available, or None."""
    return None if PROGRAM.exists() else "versitygw is not installed (make object-stores-install)"


class ObjectStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._secret = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/bench"

    @property
    def options(self) -> dict[str, str]:
        """obstore's."""
        return {
            "endpoint": f"http://127.0.0.1:{self._port}",
            "region": "us-east-1",
            "access_key_id": "bench",
            "secret_access_key": self._secret,
        }

    @property
    def broker_settings(self) -> dict[str, str]:
        return {
            "remote.log.storage.system.enable": "true",
            "barnabas.remote.storage.url": self.url,
            **{f"rsm.config.{name}": value for name, value in self.options.items()},
        }

    def start(self) -> "ObjectStore":
        (self._folder / "objects" / BUCKET).mkdir(parents=True)  # folders are buckets
        keys = {"ROOT_ACCESS_KEY": "bench", "ROOT_SECRET_KEY": self._secret}
        command = [str(PROGRAM), "--port", f"127.0.0.1:{self._port}", "--quiet"]
        command += ["--access-log", str(self._access_log), "posix", str(self._folder / "objects")]
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                command, env={**os.environ, **keys}, stdout=output, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"versitygw did not start: {(self._folder / 'output').read_text()[-400:]}")
            time.sleep(0.05)
        return self

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status > 0
        except OSError:
            return False
        finally:
            connection.close()

    @property
    def _access_log(self) -> Path:
        return self._folder / "requests"

    def requests(self) -> int:
        """Number of requests served."""
        return len(self._lines())

    def requests_from(self, operation: str, since: int) -> int:
        """Number of requests after the first `since`, starting with the first `operation` ("CreateMultipartUpload")."""
        later = self._lines()[since:]
        first = next((number for number, line in enumerate(later) if operation in line), len(later))
        return len(later) - first

    def _lines(self) -> list[str]:
        return self._access_log.read_text().splitlines() if self._access_log.exists() else []

    def objects(self, suffix: str) -> list[tuple[str, int]]:
        """(key below the bucket's prefix, size) of all objects with that suffix."""
        root = self._folder / "objects" / BUCKET
        return sorted((str(path.relative_to(root)), path.stat().st_size) for path in root.rglob(f"*{suffix}"))

    def cpu_seconds(self) -> float:
        assert self._process is not None, "the object store has not been started"
        return cpu_seconds(self._process.pid)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None
