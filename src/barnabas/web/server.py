"""HTTP for registry, console and ingest: uvicorn on a socket of ours, with bounds on heads, bodies and connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING, Any

from barnabas.web.bodies import Receive, Scope, headers_of
from barnabas.web.responses import Send

if TYPE_CHECKING:
    import uvicorn

KEEP_ALIVE = 75  # seconds; clients ask now and then, and a new connection takes longer than an answer
BACKLOG = 128
MAX_DISCARDED = 64 * 1024
"""Bytes of a body that are read after its answer, so that the client sees the answer and can use the connection."""

PEER_CERTIFICATE = "peer_certificate"
"""In the `state` of a request's scope: the certificate that the client has shown, in DER."""

App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WebLimits:
    """Bounds of a server (`web_protocol`). Those of time are for clients, not for the application."""

    connections: int = 1000
    incomplete_per_address: int = 0
    """Connections of one client whose request is incomplete; 0: half of `connections`."""
    head_seconds: float = 20.0
    body_seconds: float = 60.0
    """For the whole body."""
    body_rate: float = 1024.0
    """Bytes per second that must arrive on average; Apache's httpd demands 500."""
    body_grace: float = 10.0
    """Seconds before the rate counts."""
    answer_seconds: float = 60.0
    """A client that does not read anything of its answer for so long is closed."""
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """`incomplete_per_address` does not apply to them: behind them are many clients."""

    def __post_init__(self) -> None:
        """ValueError for a bound that would close every connection."""
        bounds = (self.connections, self.head_seconds, self.body_seconds, self.body_rate)
        if min(bounds) <= 0 or self.incomplete_per_address < 0:
            raise ValueError("connections, timeouts and the body rate must be greater than 0")

    @property
    def incomplete_limit(self) -> int:
        return self.incomplete_per_address or max(1, self.connections // 2)


def parse_networks(texts: Iterable[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Addresses and networks, as 10.0.0.5 and 10.1.0.0/16."""
    return tuple(_network(each.strip()) for each in texts)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"not a valid address or network: {text!r} (example: 10.1.0.0/16)") from None


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


class _Body:
    """The part of a request's body that was read."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = headers_of(scope)
        length = headers.get("content-length", "")
        self._left = int(length) if length.isdecimal() else 1 << 62 if "transfer-encoding" in headers else 0
        self._receive = receive

    @property
    def is_long(self) -> bool:
        return self._left > MAX_DISCARDED

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        self._left = self._left - len(message.get("body", b"")) if message.get("more_body") else 0
        return message

    async def discard(self) -> None:
        most = self._left - MAX_DISCARDED
        while self._left > most and self._left > 0:
            await self.receive()


def _closing_early(app: App) -> App:
    """A body that is answered before it was read is discarded if it is short; otherwise the connection is closed, as
    the answer announces. No answer can follow the 400 for a body that is not HTTP."""
    import h11

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(scope, receive)
        is_closing = False

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal is_closing
            if message["type"] == "http.response.start":
                is_closing = body.is_long
                close = [(b"connection", b"close")] if is_closing else []
                await send({**message, "headers": [*message["headers"], *close]})
            elif is_closing and not message.get("more_body"):
                await send({**message, "more_body": True})
                await body.discard()
                await send({"type": "http.response.body", "body": b""})
            else:
                await send(message)

        with contextlib.suppress(h11.LocalProtocolError):
            await app(scope, body.receive, answer)

    return serve


class WebServer:
    def __init__(self, app: App, tls: ssl.SSLContext | None = None, limits: WebLimits | None = None) -> None:
        self._http = _http_server(app, tls, limits or WebLimits())
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
        """Stop accepting; pending requests are answered within two seconds."""
        self._http.should_exit = True

    async def stop(self) -> None:
        self.stop_accepting()
        if self._serving is not None:
            await self._serving
            self._serving = None


def _http_server(app: App, tls: ssl.SSLContext | None, limits: WebLimits) -> uvicorn.Server:
    """Signals and logging are the process's business, not uvicorn's."""
    import uvicorn

    from barnabas.web.uvicorn_protocol import bounded_protocol

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        _closing_early(app),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http=bounded_protocol(limits, tls),  # type: ignore[arg-type]  # it is called, and that is all
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=2,
        server_header=False,
        date_header=False,
    )
    config.load()
    return Server(config)
