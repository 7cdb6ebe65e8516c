"""HTTP for the registry and the gateway: uvicorn on a socket of ours, with bounds on heads, bodies and connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import uvicorn

KEEP_ALIVE = 75  # seconds; clients ask now and then, and a new connection takes longer than an answer
BACKLOG = 128
MOST_CONNECTIONS = 1000

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class BodyTooLargeError(Exception):
    """There is more of it than allowed; the rest is not read."""


class BodyEndedError(Exception):
    """The client has gone in the middle of it."""


def headers_of(scope: Scope) -> dict[str, str]:
    """By names in lower case; of a header that stands there twice the last one counts."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def read_body(
    headers: Mapping[str, str], receive: Receive, most: int, arriving: Callable[[int], None] | None = None
) -> bytes:
    """At most so many bytes, whatever the headers say. `arriving` is told of each piece before it is kept."""
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise BodyTooLargeError
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BodyEndedError
        piece = message.get("body", b"")
        if arriving is not None:
            arriving(len(piece))
        body += piece
        if len(body) > most:
            raise BodyTooLargeError
        if not message.get("more_body"):
            return bytes(body)


async def send_answer(
    send: Send, status: int, body: bytes, kind: str, more: Sequence[tuple[str, str]] = ()
) -> None:
    headers = [("content-type", kind), ("content-length", str(len(body))), *more]
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio switches Nagle's algorithm off for what it accepts.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return listening


class WebServer:
    def __init__(
        self, app: App, tls: ssl.SSLContext | None = None, connections: int = MOST_CONNECTIONS
    ) -> None:
        self._http = _http_server(app, tls, connections)
        self._serving: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> None:
        """Returns when clients are served."""
        self._serving = asyncio.create_task(self._http.serve(sockets=[listening]))
        while not self._http.started:
            if self._serving.done():
                await self._serving
                raise RuntimeError("the HTTP server ended before it had started")
            await asyncio.sleep(0.001)

    def stop_accepting(self) -> None:
        """Requests that have come are answered within two seconds."""
        self._http.should_exit = True

    async def stop(self) -> None:
        self.stop_accepting()
        if self._serving is not None:
            await self._serving
            self._serving = None


def _http_server(app: App, tls: ssl.SSLContext | None, connections: int) -> uvicorn.Server:
    """Signals and logging are the process's business, not uvicorn's."""
    import uvicorn

    from barnabas.web.uvicorn_protocol import bounded_protocol

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http=bounded_protocol(connections, tls),  # type: ignore[arg-type]  # it is called, and that is all
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=2,
        server_header=False,
        date_header=False,
    )
    config.load()
    return Server(config)
