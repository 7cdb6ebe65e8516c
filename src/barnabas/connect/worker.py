"""Runs Apache Kafka Connect for third-party plugins, as a child process monitored through its REST interface.

Kafka Connect does not restart failed tasks. This worker restarts them with exponential backoff, and reports the status
of each connector in the same form as native connectors.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barnabas.client import ConnectorAction
from barnabas.client.status import ProcessStatus, State, StatusPart
from barnabas.common.http_client import HttpError, fetch
from barnabas.connect.declaration import Restart
from barnabas.connect.state_machine import ConnectorState
from barnabas.spark import PipelineError, prepare_java

BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension"
BASIC_AUTH_JAR = "connect-basic-auth-extension-*.jar"
USER = "barnabas"
MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
START_SECONDS = 120.0
REST_SECONDS = 30.0
STOP_SECONDS = 30.0
MAX_BYTES = 64 << 20  # per response: it contains the traces of all failed tasks
LIBS = "KAFKA_LIBS"
_STATES: Mapping[str, State] = {
    "RUNNING": "running",
    "PAUSED": "paused",
    "STOPPED": "stopped",
    "FAILED": "failed",
    "UNASSIGNED": "starting",
    "RESTARTING": "starting",
}
CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True)
class WorkerSettings:
    bootstrap: str
    plugins: Path
    libs: Path
    """Kafka's jars: the folder `libs` of its distribution."""
    port: int
    group: str = "barnabas-connect"
    replication: int = -1
    """Replication factor of its three topics; -1 for the brokers' default."""
    password: str = field(default_factory=lambda: secrets.token_urlsafe(18), repr=False)
    """Password of the user `barnabas` of its REST interface."""
    security: Mapping[str, str] | None = None
    more: Mapping[str, str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_protected(self) -> bool:
        """True if the REST interface can require a password. Needs Kafka's extension in `libs`: Java searches login
        modules on the class path only."""
        return any(self.libs.glob(BASIC_AUTH_JAR))

    def properties(self) -> dict[str, str]:
        security = dict(self.security or {})
        clients = {
            f"{side}.{name}": value
            for side in ("producer", "consumer", "admin")
            for name, value in security.items()
        }
        topics = {
            f"{what}.storage.{setting}": value
            for what, name in (("config", "configs"), ("offset", "offsets"), ("status", "status"))
            for setting, value in (
                ("topic", f"{self.group}-{name}"),
                ("replication.factor", str(self.replication)),
            )
        }
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "plugin.path": str(self.plugins.resolve()),
            "listeners": self.url,
            "exactly.once.source.support": "enabled",
            "key.converter": CONVERTER,
            "value.converter": CONVERTER,
            **(
                {"rest.extension.classes": f"{BASIC_AUTH}.BasicAuthSecurityRestExtension"}
                if self.is_protected
                else {}
            ),
            **topics,
            **security,
            **clients,
            **(self.more or {}),
        }


def find_libs(path: Path | None) -> Path:
    """Return the folder of the Connect runtime; PipelineError with instructions if it is missing."""
    folder = path or Path(os.environ.get(LIBS, "libs"))
    if not any(folder.glob("connect-runtime-*.jar")):
        raise PipelineError(
            f"connect-runtime not found in {folder}: unpack Apache Kafka, and pass its folder `libs` with "
            f"--kafka-libs (or {LIBS} in the environment)."
        )
    return folder


@contextmanager
def running_worker(settings: WorkerSettings) -> Iterator[ConnectWorker]:
    """Run a worker; its settings, including passwords, are in a file readable only by this user."""
    with tempfile.TemporaryDirectory(prefix="barnabas-connect-") as folder:
        file = Path(folder) / "worker.properties"
        file.touch(mode=0o600)
        file.write_text(
            "".join(f"{name}={_escaped(value)}\n" for name, value in settings.properties().items())
        )
        login = _rest_login(Path(folder), settings.password)
        process = subprocess.Popen([*_java(), login, "-cp", f"{settings.libs}/*", MAIN, str(file)])
        try:
            yield ConnectWorker(settings.url, process, settings.password)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _rest_login(folder: Path, password: str) -> str:
    """Return the Java option for the users of the REST interface. The folder is private to this user."""
    users, jaas = folder / "rest-users.properties", folder / "rest-login.conf"
    users.write_text(f"{USER}={password}\n")
    jaas.write_text(f'KafkaConnect {{ {BASIC_AUTH}.PropertyFileLoginModule required file="{users}"; }};\n')
    return f"-Djava.security.auth.login.config={jaas}"


class ConnectWorker:
    """REST client of the Connect runtime."""

    def __init__(self, url: str, process: subprocess.Popen[bytes] | None = None, password: str = "") -> None:
        self._url = url
        self._authorization = f"Basic {base64.b64encode(f'{USER}:{password}'.encode()).decode()}"
        self._process = process
        self._lives: dict[str, ConnectorState] = {}

    def await_start(self, stopping: Callable[[], bool] = lambda: False) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not stopping():
            self.check()
            try:
                self._ask("GET", "/connectors")
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise PipelineError(
                        f"Kafka Connect did not start within {START_SECONDS:.0f} s."
                    ) from None
                time.sleep(0.5)

    def check(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise PipelineError(
                f"Kafka Connect exited with status {self._process.returncode}; its log is above."
            )

    def submit(self, name: str, config: Mapping[str, str]) -> None:
        """Create or update a connector; PipelineError with the reason if the runtime rejects it."""
        try:
            self._ask("PUT", f"/connectors/{name}/config", dict(config))
        except HttpError as error:
            answer = json.loads(error.body or b"{}").get("message", error)
            raise PipelineError(f"Kafka Connect rejects the connector {name}.", str(answer)) from None

    def look(self, now: float) -> list[ProcessStatus]:
        """Return the status of all connectors; restart failed ones whose backoff has expired."""
        found = self._ask("GET", "/connectors?expand=status")
        return [self._watched(name, one["status"], now) for name, one in sorted(found.items())]

    def request(self, name: str, kind: ConnectorAction) -> None:
        """Pause, resume or restart a connector with its tasks."""
        path = f"/connectors/{urllib.parse.quote(name, safe='')}"
        if kind == "restart":
            self._ask("POST", f"{path}/restart?includeTasks=true")
        else:
            self._ask("PUT", f"{path}/{kind}")

    def _watched(self, name: str, answer: Mapping[str, Any], now: float) -> ProcessStatus:
        life = self._lives.setdefault(name, ConnectorState(Restart(), float("inf")))
        parts = [_part(f"task {task['id']}", task) for task in answer["tasks"]]
        own = _part("connector", answer["connector"])
        failed = [part for part in (own, *parts) if part.state == "failed"]
        if failed and life.state != "retrying":
            life.failed(now, failed[0].reason)
        elif failed and life.should_start(now):
            self._ask("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
            life.state = "starting"
        elif not failed:
            life.state = own.state
        state: State = "retrying" if failed else own.state
        counts: dict[str, int | float] = {"restarts": life.restarts, "tasks": len(parts)}
        return ProcessStatus(
            "connector", name, state, error=failed[0].reason if failed else "", counts=counts, parts=parts
        )

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": self._authorization}
        response = fetch(
            self._url + path,
            method=method,
            body=data,
            headers=headers,
            timeout=REST_SECONDS,
            max_bytes=MAX_BYTES,
        ).raise_for_status()
        return json.loads(response.body) if response.body else None


def read_configs(files: Sequence[Path]) -> dict[str, dict[str, str]]:
    """Read connectors from Kafka's file formats: JSON with `name` and `config`, or properties with `name`."""
    found: dict[str, dict[str, str]] = {}
    for file in files:
        name, config = _config_in(file)
        if name in found:
            raise PipelineError(f"{file}: duplicate connector name {name}.")
        found[name] = config
    return found


def _config_in(file: Path) -> tuple[str, dict[str, str]]:
    from barnabas.config.properties import parse_properties

    try:
        text = file.read_text()
        if file.suffix != ".json":
            config = parse_properties(text)
            return config["name"], config
        answer = json.loads(text)
        return answer["name"], {"name": answer["name"], **answer["config"]}
    except OSError as error:
        raise PipelineError(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise PipelineError(
            f"{file} is not a connector: expected JSON with `name` and `config`, or properties with `name`."
        ) from None


def _part(name: str, answer: Mapping[str, Any]) -> StatusPart:
    reason = str(answer.get("trace") or "").split("\n")[0]
    return StatusPart(name, _STATES.get(answer["state"], "failed"), reason)


def _java() -> list[str]:
    prepare_java()
    home = os.environ.get("JAVA_HOME")
    return [f"{home}/bin/java" if home else "java", "-Xmx512m"]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
