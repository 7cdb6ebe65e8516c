"""Test client of a console: statuses, pages, JSON."""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.parse
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from barnabas.client.addresses import Address
from barnabas.common.loop_thread import LoopThread
from barnabas.network import new_event_loop
from barnabas.services.console.server import ConsoleServer
from barnabas.services.console.settings import ClusterSettings, ConsoleSettings

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
CLUSTER = "default"


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Web:
    """`get("/topics")` is a page of the cluster; `api("/topics")` its JSON; `post` a form; `change` a JSON action."""

    def __init__(self, url: str, cluster: str = CLUSTER, headers: dict[str, str] | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        self.url = url
        self.base = f"/c/{urllib.parse.quote(cluster, safe='')}"
        self.headers = headers or {}
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: bytes | None = None, /, **headers: str) -> Answer:
        """Any path of the console, as it is."""
        self._connection.request(method, path, body, self.headers | headers)
        response = self._connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def get(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", self.base + path + _query(query))

    def api(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", f"/api/v1{self.base}{path}{_query(query)}")

    def post(self, path: str, **form: Any) -> Answer:
        body = urllib.parse.urlencode(form, doseq=True).encode()
        return self.ask("POST", self.base + path, body, **{"Content-Type": FORM})

    def change(self, path: str, **fields: Any) -> Answer:
        body = json.dumps(fields).encode()
        return self.ask("POST", f"/api/v1{self.base}{path}", body, **{"Content-Type": JSON})

    def events(self, path: str, **query: Any) -> Generator[tuple[str, Any], None, None]:
        """Of a stream, until it ends or the test has enough; the connection is used up."""
        self._connection.request("GET", f"/api/v1{self.base}{path}{_query(query)}", headers=self.headers)
        response = self._connection.getresponse()
        assert response.status == 200, response.read()
        try:
            yield from _events(response)
        finally:
            self._connection.close()


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in response:
        word, _, rest = line.rstrip(b"\n").partition(b": ")
        if word == b"event":
            name = rest.decode()
        elif word == b"data":
            yield name, json.loads(rest)


def _query(query: dict[str, Any]) -> str:
    return "?" + urllib.parse.urlencode(query, doseq=True) if query else ""


class RunningConsole:
    def __init__(self, server: ConsoleServer, loop: LoopThread) -> None:
        self.server = server
        self._loop = loop

    @property
    def url(self) -> str:
        return self.server.url

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """On the console's own loop."""
        return self._loop.run(coroutine)

    def web(self) -> Web:
        return Web(self.url, next(iter(self.server.clusters)))


@contextmanager
def running_console(bootstrap: str, data: Path, **settings: Any) -> Iterator[RunningConsole]:
    """A console in a thread of this process, for one cluster that is called `default`."""
    made = ConsoleSettings((ClusterSettings(CLUSTER, bootstrap),), Address("127.0.0.1", 0), data)
    loop = LoopThread("console", new_event_loop())

    async def start() -> ConsoleServer:
        server = ConsoleServer(replace(made, **settings))
        await server.start()
        return server

    try:
        server = loop.run(start())
        try:
            yield RunningConsole(server, loop)
        finally:
            loop.run(asyncio.wait_for(server.stop(), 30))
    finally:
        loop.close()
