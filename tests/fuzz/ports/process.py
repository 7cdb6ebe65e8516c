"""A broker and the program of one port."""

from __future__ import annotations

import base64
import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.services.console.access.passwords import hash_of, new_token
from barnabas.testing import EmbeddedBroker
from tests.fuzz.driving import ROOT, Hung
from tests.support.programs import free_port
from tests.support.waiting import retry, still_running

USERS = {"admin": "admin's password"}
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PORTS = ("registry", "console", "exporter", "metrics", "http", "syslog", "statsd")
HTTP_PORTS = PORTS[:5]
START_SECONDS = HUNG_SECONDS = 60.0
QUIET_SECONDS = 0.02
PAUSE_SECONDS = 0.005  # between the pieces of a slow body
ANSWER_SECONDS = 30.0
CROWDED_SECONDS = 10.0  # less than servers wait for half-sent bodies
_CONSOLE = """\
data: "{folder}/console"
login: {{kind: service, users: [{{name: alice, password: "{password}"}}]}}
roles: [{{role: admin, users: ["*"]}}]
tokens: [{{name: fuzz, digest: "{digest}", role: admin}}]
"""


@dataclass(frozen=True)
class Case:
    """Data sent by a client over one or many connections."""

    name: str
    pieces: Sequence[bytes]
    is_answered: bool = True
    connections: int = 1
    by_datagrams: bool = False

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces)) * self.connections


@dataclass(frozen=True)
class Cost:
    seconds: float
    where: str
    peak: int
    lines: int
    complaints: list[str]


class Port:
    """A program that listens, with a login: `authorization` is the header of a client that may do everything."""

    def __init__(self, name: str, arguments: Sequence[str], number: int, authorization: str) -> None:
        self.name, self.number, self.authorization = name, number, authorization
        ours, remote = socket.socketpair()
        command = [sys.executable, "-m", "tests.fuzz.ports.watched", str(remote.fileno()), *arguments]
        self._process = subprocess.Popen(
            command,
            pass_fds=[remote.fileno()],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        )
        remote.close()
        self._control = ours
        self._control.settimeout(2 * HUNG_SECONDS)
        self._answers = ours.makefile("rb")
        self._floor = 0
        self._await_start()

    def stop(self) -> None:
        self._answers.close()
        self._control.close()
        self._process.kill()
        self._process.wait()

    def reset(self) -> None:
        """Reset the costs after pending work has completed."""
        deadline = time.monotonic() + HUNG_SECONDS
        while self._turned()["waiting"] and time.monotonic() < deadline:
            time.sleep(QUIET_SECONDS)
        self._floor = self._ask(b"reset\n")["rss"]

    def cost(self) -> Cost:
        self._turned()
        found = self._ask(b"stats\n")
        return Cost(
            found["longest"], found["where"], found["peak"] - self._floor, found["lines"], found["complaints"]
        )

    def send(self, case: Case) -> list[bytes]:
        """Answers, of which each is the beginning of one."""
        if case.by_datagrams:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                for piece in case.pieces:
                    client.sendto(piece[:65_000], ("127.0.0.1", self.number))
            return []
        clients: list[socket.socket] = []
        try:
            for _ in range(case.connections):
                clients.append(self._connected("127.0.0.1"))
                self._write(clients[-1], case.pieces)
            if case.connections > 1:
                self._check_service_soon()  # while they are all there
            return [_read(client) for client in clients] if case.is_answered else []
        except (ConnectionError, TimeoutError):
            return []
        finally:
            for client in clients:
                client.close()

    def check_service(self, path: str = "/") -> None:
        """Is a client from another address served?"""
        self._turned()
        if self.name not in HTTP_PORTS:
            self._connected("127.0.0.2").close()
            return
        lines = (
            f"GET {path} HTTP/1.1",
            "Host: localhost",
            f"Authorization: {self.authorization}",
            "Connection: close",
        )
        head = "\r\n".join(lines) + "\r\n\r\n"
        try:
            with self._connected("127.0.0.2") as client:
                client.sendall(head.encode())
                answer = _read(client)
        except (ConnectionError, TimeoutError) as error:
            raise Hung(f"another client is not served: {error!r}") from error
        if not re.match(rb"HTTP/1.1 [1-4]\d\d", answer):
            raise Hung(f"another client is not served: {answer[:60]!r}")

    def _check_service_soon(self) -> None:
        """A server with a thousand connections may reject another one for a moment."""
        deadline = time.monotonic() + CROWDED_SECONDS
        while True:
            try:
                return self.check_service()
            except Hung:
                if time.monotonic() > deadline:
                    raise
                time.sleep(QUIET_SECONDS)

    def _connected(self, source: str) -> socket.socket:
        return socket.create_connection(
            ("127.0.0.1", self.number), ANSWER_SECONDS, source_address=(source, 0)
        )

    def _write(self, client: socket.socket, pieces: Sequence[bytes]) -> None:
        for number, piece in enumerate(pieces):
            if number:
                time.sleep(PAUSE_SECONDS)
            client.sendall(piece)

    def _turned(self) -> dict[str, Any]:
        found = self._ask(b"ping\n")
        if not found["turns"]:
            raise Hung(f"the loop of {self.name} has not turned for {HUNG_SECONDS:g} s")
        return found

    def _ask(self, question: bytes) -> dict[str, Any]:
        try:
            self._control.sendall(question)
            answer: dict[str, Any] = json.loads(self._answers.readline())
        except (OSError, ValueError) as error:
            raise Hung(f"{self.name} has ended ({self._process.poll()}): {error!r}") from error
        return answer

    def _await_start(self) -> None:
        """It may listen before it can answer."""
        path = "/health" if self.name == "http" else "/"
        retry(
            lambda: self.check_service(path),
            (ConnectionError, Hung),
            f"{self.name} is not served",
            START_SECONDS,
            meanwhile=still_running(self._process, f"{self.name} has ended"),
        )


def _read(client: socket.socket) -> bytes:
    """The head of a response, or its received part."""
    received = b""
    poll = select.poll()
    poll.register(client, select.POLLIN)
    while b"\r\n\r\n" not in received and poll.poll(ANSWER_SECONDS * 1000):
        piece = client.recv(65536)
        if not piece:
            break
        received += piece
    return received


@contextmanager
def open_port(name: str) -> Iterator[Port]:
    """With a broker whose clients log in; the program logs in as its administrator."""
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-fuzz-") as folder,
        EmbeddedBroker(settings, security="SASL_PLAINTEXT", users=USERS) as broker,
    ):
        arguments, number, authorization = _arguments(name, Path(folder), broker)
        port = Port(name, arguments, number, authorization)
        try:
            yield port
        finally:
            port.stop()


def _arguments(name: str, folder: Path, broker: EmbeddedBroker) -> tuple[list[str], int, str]:
    """Of the command, with its port and the login of its clients."""
    number, (token, digest) = free_port(), new_token()
    listen, bearer = f"127.0.0.1:{number}", f"Bearer {token}"
    properties = "\n".join(f"{key}={value}" for key, value in broker.clients_of("admin").java.items())
    (folder / "login.properties").write_text(properties)
    (folder / "tokens").write_text(f"{token}\n")
    (folder / "console.yml").write_text(
        _CONSOLE.format(digest=digest, folder=folder, password=hash_of(USERS["admin"]))
    )
    to_broker = ["-b", broker.bootstrap_servers, "--command-config", str(folder / "login.properties")]
    tokens = str(folder / "tokens")
    basic = base64.b64encode(f"admin:{USERS['admin']}".encode()).decode()
    settings = (f"barnabas.metrics.listen={listen}", f"barnabas.metrics.tokens.file={tokens}")
    metrics = ["--data", str(folder / "data"), *(part for each in settings for part in ("--set", each))]
    commands = {
        "registry": (["registry", "run", "--listen", listen, *to_broker], f"Basic {basic}"),
        "console": (["console", "--listen", listen, "--config", str(folder / "console.yml"), *to_broker], bearer),
        "exporter": (["console", "--exporter-only", "--listen", listen, "--tokens", tokens, *to_broker], bearer),
        "http": (
            ["ingest", "http", "-t", "events", "-l", listen, "--token-file", tokens, "--timeout", "2s", *to_broker],
            bearer,
        ),
        "syslog": (["ingest", "syslog", "-t", "events", "-l", listen, *to_broker], ""),
        "statsd": (["ingest", "statsd", "-t", "events", "-l", listen, "--every", "1s", *to_broker], ""),
        "metrics": (["serve", "--listen", f"127.0.0.1:{free_port()}", *metrics], bearer),
    }  # fmt: skip
    return commands[name][0], number, commands[name][1]
